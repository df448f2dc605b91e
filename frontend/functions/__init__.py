"""Functions of higher-order operators: functions of tiles, and those that need a stream."""
