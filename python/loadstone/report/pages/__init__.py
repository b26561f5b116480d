"""Pages for a browser: one file each, with its style, scripts and data inside, nothing fetched."""
