"""Commands that read run folders and change nothing in them."""
