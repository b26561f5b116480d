"""Tables in the layouts of published reports, beside those of our own."""
