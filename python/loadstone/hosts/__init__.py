"""Many client hosts make one load: agents are launched, started together, and added up."""
