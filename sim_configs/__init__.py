"""Machine presets (TOML), read by penstock.machine.config."""
