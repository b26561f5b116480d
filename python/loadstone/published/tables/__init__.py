"""Tables in the layouts of published reports, in addition to loadstone's own."""
