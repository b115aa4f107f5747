"""Independent folds of session files, compared with what our readers make of them."""
