"""Where secrets live, what builds need, and where toolchains are: the policy's data, a line for each place.

Paths are below the user's home unless they start with a slash.
"""

from __future__ import annotations

from typing import Final

SECRETS: Final = (
    ".ssh",  # keys, and sockets of open connections
    ".gnupg",  # keys, and the socket of gpg-agent
    "snap",  # applications of Snap, browsers among them
    ".config/segue",  # Segue's own settings, and what a person trusts
    ".local/state/segue",  # Segue's own state
    ".local/share/segue",  # the same
    "/etc/shadow",  # passwords, readable for root
    "/etc/gshadow",  # the same
    "/etc/sudoers",  # who may become whom
    "/etc/sudoers.d",  # the same
    "/etc/ssh",  # keys of this host
    "/etc/ssl/private",  # keys of this host
    "/etc/kubernetes",  # keys of a cluster
    "/etc/rancher",  # keys of a cluster
    "/var/lib/docker",  # other containers' files
    "/var/lib/containerd",  # the same
    "/var/lib/kubelet",  # keys of a cluster
    "/var/spool",  # mail and timetables
    "/var/mail",  # mail
    "/mnt/wslg",  # the screen's socket under WSL
)
"""Hidden whatever is in them. `homes.py` finds the other credentials of a home by what they look like."""

SOCKETS: Final = ("/run",)
"""Sockets of Docker, D-Bus, ssh-agent, keyrings and databases: all of it is hidden."""

SHOWN_IN_RUN: Final = (
    "/run/current-system",  # the programs of NixOS
    "/run/wrappers",  # the same
    "/run/opengl-driver",  # the same
)

HIDDEN_TEMPORARY: Final = (
    ".",  # sockets of the screen, locks of browsers
    "systemd-private-",  # of services
    "snap-private-",  # of packages
    "claude-",  # Claude Code writes there
    "hsperfdata_",  # Java writes there
    *(
        "segue-ask-",
        "segue-bundle-",
        "segue-check-",
        "segue-inside-",
        "segue-look-",
        "segue-seal-",
    ),  # ours, brief
    ".segue-",
)
"""Beginnings of names in /tmp, whatever TMPDIR says: inside the sandbox, programs create their own."""

CACHES: Final = {
    ".cache": "",  # pip, uv, Go's build cache, ccache, yarn, pre-commit, Playwright, …
    ".npm": "npm",
    ".cargo/registry": "cargo",
    ".cargo/git": "cargo",
    ".m2/repository": "mvn",
    ".gradle/caches": "gradle",
    ".gradle/wrapper": "gradle",
    ".gradle/daemon": "gradle",
    ".gradle/native": "gradle",
    ".gradle/notifications": "gradle",
    "go/pkg": "go",
    ".local/share/pnpm/store": "pnpm",
    ".pnpm-store": "pnpm",
    ".yarn/berry": "yarn",
    ".bun/install/cache": "bun",
    ".deno/cache": "deno",
    ".composer/cache": "composer",
    ".nuget/packages": "dotnet",
    ".local/share/NuGet": "dotnet",
    ".ivy2/cache": "sbt",
    ".sbt/boot": "sbt",
    ".hex/packages": "mix",
    ".stack/pantry": "stack",
    ".cabal/packages": "cabal",
}
"""What builds write, and the program whose presence makes us create it: nothing that is run by hand later."""

TOOLS: Final = (
    *(".pyenv", ".cargo", ".rustup", ".nvm", ".volta", ".asdf", ".rbenv", ".rvm", ".sdkman", ".deno", ".bun"),
    *(".local/share/uv", ".local/share/mise", ".local/share/pnpm", ".local/share/fnm", ".local/share/pipx"),
    *(".local/bin", ".local/pipx", "go/pkg/mod", "go/bin", "miniconda3", "anaconda3", ".m2"),
)
"""Toolchains in a home that is hidden otherwise."""

PLAIN_SETTINGS: Final = (
    ".gitconfig",
    ".config/git",
    ".config/pip",
    ".config/uv",
)
"""What tools need to know of the user, in a home that is hidden otherwise."""

SETTINGS: Final = frozenset(
    (
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".condarc", ".bazelrc", ".curlrc", ".wgetrc", ".Rprofile"),
        *(".profile", ".bashrc", ".bash_profile", ".bash_aliases", ".zshrc", ".zshenv", ".zprofile"),
    )
)
"""Files that shells and package managers read: they are seen without the secrets in them."""

NEEDED: Final = (
    *PLAIN_SETTINGS,
    *(
        ".config/go",
        ".config/mise",
        ".config/nix",
        ".config/pnpm",
        ".config/yarn",
        ".config/composer",
        ".pip",
    ),
    *(".config/pypoetry", ".config/pdm", ".config/hatch"),
    *(
        ".bundle",
        ".gem",
        ".ivy2",
        ".sbt",
        ".hex",
        ".mix",
        ".composer",
        ".yarn",
        ".conda",
        ".conan2",
        ".julia",
    ),
    *(".opam", ".ghcup", ".stack", ".cabal", ".elan", ".dotnet", ".nimble", ".pub-cache", ".platformio"),
    *(
        ".proto",
        ".fnm",
        ".rye",
        ".pixi",
        ".juliaup",
        ".phpenv",
        ".plenv",
        ".tfenv",
        ".gvm",
        ".jabba",
        ".swiftly",
    ),
    *(".local/share/swiftly", ".local/share/coursier", ".local/share/nvm", ".local/share/cargo"),
    *(".local/share/rustup", ".local/state/nix", ".luarocks", ".npm-global", ".npm-packages"),
    *(".jdks", ".jenv", ".nodenv", ".goenv", ".virtualenvs", ".local/share/virtualenvs", ".nix-profile"),
    *(".local/lib", ".local/share/jupyter", ".local/share/gem", ".local/share/man", ".oh-my-zsh", ".zsh"),
    *(".fonts", ".themes", ".icons", ".local/share/fonts", ".local/share/themes", ".local/share/icons"),
)
"""What builds and shells need beside toolchains and caches: only the secrets in their settings are hidden."""
