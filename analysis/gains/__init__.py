"""From stored cells to gains: scores, differences, their tests and their corrections."""
