"""The larger commands of the command line, a module each; `cli` puts them together."""
