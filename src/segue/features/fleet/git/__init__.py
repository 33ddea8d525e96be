"""Git for runs that move between machines: clones, bundles, and addresses of repositories."""
