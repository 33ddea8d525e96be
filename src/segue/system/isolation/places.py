"""Where secrets live, what builds need, and where toolchains are: the policy's data, a line for each place.

Paths are below the user's home unless they start with a slash.
"""

from __future__ import annotations

from typing import Final

SECRETS: Final = (
    ".ssh",  # keys, and sockets of open connections
    ".gnupg",  # keys, and the socket of gpg-agent
    ".pki",  # certificates with private keys
    ".aws",  # credentials and cached tokens
    ".azure",  # tokens
    ".config/gcloud",  # tokens
    ".boto",  # Google Storage
    ".oci",  # Oracle's cloud
    ".aliyun",  # Alibaba's cloud
    ".config/doctl",  # DigitalOcean
    ".config/hcloud",  # Hetzner
    ".config/linode-cli",  # Linode
    ".fly",  # Fly.io
    ".config/heroku",  # Heroku
    ".vercel",  # Vercel
    ".local/share/com.vercel.cli",  # Vercel
    ".config/netlify",  # Netlify
    ".config/.wrangler",  # Cloudflare
    ".wrangler",  # Cloudflare
    ".supabase",  # Supabase
    ".config/stripe",  # Stripe
    ".terraform.d",  # tokens of Terraform
    ".terraformrc",  # the same
    ".pulumi",  # tokens of Pulumi
    ".kube",  # clusters
    ".minikube",  # keys of a cluster
    ".config/helm",  # registries
    ".docker",  # logins of registries, and the socket of a desktop's Docker
    ".colima",  # the socket of Docker
    ".rd",  # the socket of Docker
    ".lima",  # keys of virtual machines
    ".config/containers",  # logins of registries
    ".local/share/containers",  # other containers' files
    ".vagrant.d",  # keys of virtual machines
    ".ansible",  # vaults and sockets
    ".vault-token",  # HashiCorp Vault
    ".netrc",  # passwords of hosts
    ".authinfo",  # passwords of hosts
    ".authinfo.gpg",  # the same
    ".git-credentials",  # passwords of git's hosts
    ".config/git/credentials",  # the same
    ".config/gh",  # GitHub's command line
    ".config/glab-cli",  # GitLab's command line
    ".config/hub",  # an older GitHub command line
    ".pypirc",  # tokens for uploads
    ".cargo/credentials",  # tokens for uploads
    ".cargo/credentials.toml",  # the same
    ".gem/credentials",  # tokens for uploads
    ".config/composer/auth.json",  # tokens of PHP's repositories
    ".composer/auth.json",  # the same
    ".nuget/NuGet.Config",  # passwords of .NET's repositories
    ".m2/settings-security.xml",  # the master password of Maven
    ".pgpass",  # passwords of Postgres
    ".my.cnf",  # passwords of MySQL
    ".mylogin.cnf",  # the same
    ".dbshell",  # history of MongoDB
    ".config/rclone",  # tokens of storage
    ".config/op",  # 1Password
    ".config/Bitwarden CLI",  # Bitwarden
    ".config/keybase",  # Keybase
    ".config/sops",  # keys
    ".config/age",  # keys
    ".password-store",  # pass
    ".local/share/gopass",  # gopass
    ".local/share/keyrings",  # GNOME's keyring
    ".local/share/kwalletd",  # KDE's wallet
    ".gnome2/keyrings",  # an older keyring
    ".mozilla",  # Firefox: cookies and passwords
    ".thunderbird",  # mail
    ".config/google-chrome",  # cookies and passwords
    ".config/chromium",  # the same
    ".config/BraveSoftware",  # the same
    ".config/microsoft-edge",  # the same
    ".config/vivaldi",  # the same
    ".config/opera",  # the same
    ".var/app",  # applications of Flatpak, browsers among them
    "snap",  # applications of Snap, browsers among them
    ".config/Slack",  # tokens
    ".config/discord",  # tokens
    ".config/Signal",  # messages
    ".config/Code/User/globalStorage",  # logins of the editor
    ".vscode-server/data",  # sockets and logins of the editor
    ".Xauthority",  # the key to the screen
    ".ICEauthority",  # the key to the session
    ".bash_history",  # commands, often with passwords
    ".zsh_history",  # the same
    ".local/share/fish/fish_history",  # the same
    ".python_history",  # the same
    ".node_repl_history",  # the same
    ".psql_history",  # the same
    ".sqlite_history",  # the same
    ".mysql_history",  # the same
    ".rediscli_history",  # the same
    ".lesshst",  # what was searched for
    ".viminfo",  # what was edited
    ".local/state/nvim",  # what was edited
    ".claude",  # an agent's login and conversations
    ".claude.json",  # the same
    ".config/claude",  # the same
    ".codex",  # the same
    ".gemini",  # the same
    ".config/gemini",  # the same
    ".cursor",  # the same
    ".config/cursor",  # the same
    ".config/Cursor",  # the same
    ".copilot",  # the same
    ".config/github-copilot",  # the same
    ".local/share/opencode",  # the same
    ".config/opencode",  # the same
    ".qwen",  # the same
    ".vibe",  # the same
    ".aider.conf.yml",  # keys of models
    ".config/io.datasette.llm",  # keys of models
    ".huggingface",  # a token
    ".cache/huggingface/token",  # a token
    ".kaggle",  # a token
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
"""Hidden from agents and checks. An agent's own configuration is shown to that agent."""

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
    ".config/git/config",
    ".config/git/ignore",
    ".config/pip",
    ".config/uv",
)
"""What tools need to know of the user, in a home that is hidden otherwise."""
