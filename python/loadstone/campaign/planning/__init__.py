"""From a campaign to its trial documents, their order, their cost, and what resuming leaves."""
