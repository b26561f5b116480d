"""Files of a run folder that survive a kill or a power cut: tables, logs, checksums, locks."""
