"""Tables: findings to rows of text, in our own layouts and in published ones."""
