"""The reviewer stet."""
