"""Commands that read what runs left behind, and write none of it anew."""
