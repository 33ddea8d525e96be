"""A user's home: credentials as real tools write them, and what builds and agents honestly need of it.

Written before the rule that tells them apart. `WORD` stands for the secret; its file is as readable for
others as the rest, so that nothing but its place and content can give it away.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

WORD = "q7Zp4mXc0vTn2RkL9sWd"
_JSON = f'{{\n  "%s": "{WORD}"\n}}\n'
_XML_SERVER = (
    "<settings><mirrors><mirror><url>https://mirror.example/maven</url></mirror></mirrors><servers><server>"
    f"<id>corp</id><username>ada</username><password>{WORD}</password></server></servers></settings>\n"
)
SQLITE = "a database"
"""Instead of a content: the word is in a table."""
BINARY = f"\0\1\2{WORD}\0\377"

CREDENTIALS = {
    # Hosts, keys, git
    ".ssh/id_ed25519": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{WORD}\n-----END OPENSSH PRIVATE KEY-----\n",
    ".gnupg/private-keys-v1.d/0A.key": f"Created: 20250101\nKey: (private-key (ecc (d #{WORD}#)))\n",
    ".netrc": f"machine api.example login ada password {WORD}\n",
    ".git-credentials": f"https://ada:{WORD}@github.com\n",
    ".config/gh/hosts.yml": f"github.com:\n    user: ada\n    oauth_token: {WORD}\n",
    # Clouds
    ".aws/credentials": f"[default]\naws_access_key_id = AKIAABCDEFGHIJ\naws_secret_access_key = {WORD}\n",
    ".azure/msal_token_cache.json": f'{{"AccessToken": {{"a-b": {{"secret": "{WORD}"}}}}}}\n',
    ".config/gcloud/credentials.db": SQLITE,
    ".config/gcloud/application_default_credentials.json": _JSON % "refresh_token",
    ".terraform.d/credentials.tfrc.json": f'{{"credentials": {{"app.example": {{"token": "{WORD}"}}}}}}\n',
    ".vault-token": WORD,
    ".kube/config": f"users:\n- name: ada\n  user:\n    client-key-data: {WORD}\n",
    ".docker/config.json": f'{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{WORD}"}}}}}}\n',
    # Packages
    ".npmrc": f"registry=https://npm.example/\n//npm.example/:_authToken={WORD}\nsave-exact=true\n",
    ".yarnrc.yml": f'npmRegistryServer: "https://npm.example"\nnpmAuthToken: "{WORD}"\n',
    ".pypirc": f"[pypi]\nusername = __token__\npassword = {WORD}\n",
    ".config/pip/pip.conf": f"[global]\nindex-url = https://ada:{WORD}@pypi.example/simple\ntimeout = 60\n",
    ".config/uv/uv.toml": f'[[index]]\nurl = "https://ada:{WORD}@pypi.example/simple"\n',
    ".cargo/credentials.toml": f'[registry]\ntoken = "{WORD}"\n',
    ".m2/settings.xml": _XML_SERVER,
    ".m2/settings-security.xml": f"<settingsSecurity><master>{{{WORD}=}}</master></settingsSecurity>\n",
    ".gradle/gradle.properties": f"org.gradle.jvmargs=-Xmx2g\nmavenPassword={WORD}\n",
    ".nuget/NuGet/NuGet.Config": (
        "<configuration><packageSourceCredentials><corp><add key='ClearTextPassword' "
        f"value='{WORD}' /></corp></packageSourceCredentials></configuration>\n"
    ),
    ".gem/credentials": f"---\n:rubygems_api_key: {WORD}\n",
    ".config/nix/nix.conf": f"experimental-features = flakes\naccess-tokens = github.com={WORD}\n",
    # Storage, back-ups, passwords
    ".config/rclone/rclone.conf": f'[drive]\ntype = drive\ntoken = {{"access_token":"{WORD}"}}\n',
    ".config/Bitwarden CLI/data.json": _JSON % "user_x_token_accessToken",
    ".password-store/mail.gpg": BINARY,
    ".local/share/keyrings/login.keyring": BINARY,
    ".local/share/kwalletd/kdewallet.kwl": BINARY,
    ".config/sops/age/keys.txt": f"# created\nAGE-SECRET-KEY-1{WORD.upper()}{WORD}\n",
    "passwords.kdbx": BINARY,
    # Mail, chat
    ".msmtprc": f"account x\nhost smtp.example\nuser ada\npassword {WORD}\n",
    ".thunderbird/x.default/logins.json": f'{{"logins": [{{"encryptedPassword": "{WORD}"}}]}}\n',
    ".config/Signal/sql/db.sqlite": SQLITE,
    # Databases
    ".pgpass": f"localhost:5432:*:ada:{WORD}\n",
    ".my.cnf": f"[client]\nuser=ada\npassword={WORD}\n",
    ".bash_history": f"curl -H 'X-Api-Key: {WORD}' https://api.example\n",
    ".bashrc": f"alias ll='ls -l'\nexport PATH=$PATH:~/bin\nexport SOME_API_KEY={WORD}\n",
    # Models and agents
    ".cache/huggingface/token": WORD,
    ".claude/.credentials.json": f'{{"claudeAiOauth": {{"accessToken": "{WORD}"}}}}\n',
    ".codex/auth.json": f'{{"tokens": {{"access_token": "{WORD}"}}}}\n',
    ".gemini/oauth_creds.json": _JSON % "refresh_token",
    ".local/share/opencode/auth.json": f'{{"anthropic": {{"type": "api", "key": "{WORD}"}}}}\n',
    ".config/goose/config.yaml": f"GOOSE_PROVIDER: openai\nOPENAI_API_KEY: {WORD}\n",
    # Editors, browsers, wallets
    ".config/Code/User/globalStorage/state.vscdb": SQLITE,
    ".mozilla/firefox/x.default/key4.db": SQLITE,
    ".config/google-chrome/Default/Login Data": SQLITE,
    ".bitcoin/wallet.dat": BINARY,
    ".config/solana/id.json": str([*range(100, 164)]).replace(" ", ""),
    ".curlrc": f'user = "ada:{WORD}"\n',
}
"""Of a file below the home, what a tool wrote."""

NEEDS = {
    # Settings without a secret
    ".gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.com\n[credential]\n\thelper = store\n",
    ".config/git/ignore": "*.swp\n.idea/\n",
    ".config/go/env": "GOPROXY=https://proxy.example,direct\nGONOSUMDB=example.com\n",
    ".config/ruff/ruff.toml": 'line-length = 110\n[lint]\nselect = ["S105", "S106"]\n',
    ".profile": 'export PATH="$HOME/bin:$PATH"\nexport TOKEN_FILE=~/.token\neval "$(ssh-agent)"\n',
    ".zshrc": 'source ~/.oh-my-zsh/oh-my-zsh.sh\nbindkey "^R" history-search\nexport KEYTIMEOUT=1\n',
    ".vimrc": 'set number\nlet g:password_hint = ""\nnnoremap <leader>k :set keymap=<CR>\n',
    ".cargo/config.toml": '[registries.corp]\nindex = "sparse+https://c.example/"\n[net]\noffline = true\n',
    # Toolchains and their data
    ".pyenv/versions/3.12.1/lib/python3.12/netrc.py": "class netrc:\n    password = None\n",
    ".pyenv/version": "3.12.1\n",
    ".nvm/nvm.sh": 'NVM_AUTH_HEADER="${NVM_AUTH_HEADER:-}"\nlocal token="${1}"\n',
    ".rustup/settings.toml": 'default_toolchain = "stable"\n',
    ".local/share/uv/python/cpython-3.12/lib/secrets.py": 'def token_hex(n=32):\n    """A token."""\n',
    ".local/bin/tool": "#!/bin/sh\nTOKEN=$(cat token)\n",
    # Caches
    ".cache/pip/http/a/b": "\0wheel\377",
    ".cache/huggingface/hub/models--x/refs/main": "abc\n",
    ".npm/_cacache/index-v5/01/entry": '{"key":"make-fetch-happen:request-cache:https://npm.example/x"}\n',
    ".cargo/registry/src/index/jsonwebtoken/src/lib.rs": "pub struct Token { secret: String }\n",
    ".m2/repository/org/x/1/x.pom": "<project/>\n",
    "go/pkg/mod/golang.org/x/oauth2/token.go": 'AccessToken string `json:"access_token"`\n',
    # The user's own work beside the repository
    "projects/other/README.md": "# Other\n",
    "notes.txt": "Buy milk\n",
}
"""Of a file below the home, what must stay as it is."""

KEPT_LINES = {
    ".npmrc": "registry=https://npm.example/",
    ".config/pip/pip.conf": "timeout = 60",
    ".gradle/gradle.properties": "org.gradle.jvmargs=-Xmx2g",
    ".m2/settings.xml": "<url>https://mirror.example/maven</url>",
    ".bashrc": "alias ll='ls -l'",
    ".config/uv/uv.toml": "[[index]]",
    ".config/nix/nix.conf": "experimental-features = flakes",
    ".yarnrc.yml": "npmRegistryServer",
}
"""Of settings that name a secret too, what stays readable where a file can be shown without it."""


def make_home(home: Path, files: dict[str, str] | None = None) -> None:
    """Write the files, all of them by default, as readable for others as a umask of 022 makes them."""
    for name, content in ({**CREDENTIALS, **NEEDS} if files is None else files).items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is SQLITE:
            with sqlite3.connect(path) as database:
                database.execute("create table cookies (value text)")
                database.execute("insert into cookies values (?)", [WORD])
            database.close()
        else:
            path.write_bytes(content.encode("latin-1"))
        path.chmod(0o644)
