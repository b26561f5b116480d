"""The questions of a card, by what they are about: a function each, and no order between them."""
