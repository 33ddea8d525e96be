"""Web search services behind one socket."""
