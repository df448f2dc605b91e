"""Programs for readers: text form, drawings, the pages of the operators."""
