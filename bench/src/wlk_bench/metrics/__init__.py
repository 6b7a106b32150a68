"""Every figure as a pure function of an event log and its reference, one concept a file."""
