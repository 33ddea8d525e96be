"""Stand-ins for services that show notifications and send back what people press."""
