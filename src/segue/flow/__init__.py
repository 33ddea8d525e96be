"""The loop: one small file per phase. It knows sockets only, emits events and never prints."""
