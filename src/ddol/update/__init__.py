"""What an agent does alone: losses, mirrors, domains, rates, experts."""
