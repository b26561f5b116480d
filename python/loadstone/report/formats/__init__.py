"""One module for each format that `loadstone report` writes."""
