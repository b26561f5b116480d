"""From a file, flags and the environment to a campaign; every mistake with its place."""
