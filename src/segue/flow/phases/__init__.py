"""The phases, one file each; `registry` has them all."""
