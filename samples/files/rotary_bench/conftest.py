pytest_plugins = ["penstock.tb.conftest"]
