"""Terminal output of commands: plain text, progress, the live view and the preview of a plan."""
