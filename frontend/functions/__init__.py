"""What higher-order operators run: functions of tiles, and those that need a stream."""
