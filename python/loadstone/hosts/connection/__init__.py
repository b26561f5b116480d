"""How controller and agents reach each other: addresses, certificates, and what carries words."""
