"""Stand-ins for other libraries: the same names and results, from Gristmill."""
