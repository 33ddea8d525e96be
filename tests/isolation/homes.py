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
    ".authinfo": f"machine imap.example login ada port 993 password {WORD}\n",
    ".git-credentials": f"https://ada:{WORD}@github.com\n",
    ".config/git/credentials": f"https://ada:{WORD}@gitlab.com\n",
    ".config/gh/hosts.yml": f"github.com:\n    user: ada\n    oauth_token: {WORD}\n",
    ".config/glab-cli/config.yml": f"hosts:\n    gitlab.com:\n        token: {WORD}\n",
    ".config/hub": f"github.com:\n- user: ada\n  oauth_token: {WORD}\n",
    # Clouds
    ".aws/credentials": f"[default]\naws_access_key_id = AKIAABCDEFGHIJ\naws_secret_access_key = {WORD}\n",
    ".aws/sso/cache/3fa1.json": _JSON % "accessToken",
    ".azure/msal_token_cache.json": f'{{"AccessToken": {{"a-b": {{"secret": "{WORD}"}}}}}}\n',
    ".azure/accessTokens.json": f'[{{"tokenType": "Bearer", "refreshToken": "{WORD}"}}]\n',
    ".config/gcloud/credentials.db": SQLITE,
    ".config/gcloud/application_default_credentials.json": _JSON % "refresh_token",
    ".boto": f"[Credentials]\ngs_oauth2_refresh_token = {WORD}\n",
    ".bigqueryrc": f"credential_file = /home/ada/key.json\nclient_secret = {WORD}\n",
    ".config/doctl/config.yaml": f"access-token: {WORD}\ncontext: default\n",
    ".config/hcloud/cli.toml": f'active_context = "x"\n[[contexts]]\nname = "x"\ntoken = "{WORD}"\n',
    ".config/configstore/firebase-tools.json": f'{{"tokens": {{"refresh_token": "{WORD}"}}}}\n',
    ".config/netlify/config.json": f'{{"users": {{"1": {{"auth": {{"token": "{WORD}"}}}}}}}}\n',
    ".local/share/com.vercel.cli/auth.json": _JSON % "token",
    ".config/stripe/config.toml": f"[default]\ntest_mode_api_key = '{WORD}'\n",
    ".fly/config.yml": f"access_token: {WORD}\n",
    ".config/.wrangler/config/default.toml": f'oauth_token = "{WORD}"\n',
    ".terraform.d/credentials.tfrc.json": f'{{"credentials": {{"app.example": {{"token": "{WORD}"}}}}}}\n',
    ".terraformrc": f'credentials "app.terraform.io" {{\n  token = "{WORD}"\n}}\n',
    ".pulumi/credentials.json": f'{{"accessTokens": {{"https://api.pulumi.com": "{WORD}"}}}}\n',
    ".vault-token": WORD,
    ".kube/config": f"users:\n- name: ada\n  user:\n    client-key-data: {WORD}\n",
    ".minikube/profiles/minikube/client.key": f"-----BEGIN RSA PRIVATE KEY-----\n{WORD}\n",
    ".config/helm/registry/config.json": f'{{"auths": {{"ghcr.io": {{"auth": "{WORD}"}}}}}}\n',
    ".config/k9s/clusters/x/config.yaml": f"k9s:\n  bearerToken: {WORD}\n",
    ".docker/config.json": f'{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{WORD}"}}}}}}\n',
    ".config/containers/auth.json": f'{{"auths": {{"quay.io": {{"auth": "{WORD}"}}}}}}\n',
    ".databrickscfg": f"[DEFAULT]\nhost = https://x.cloud.databricks.com\ntoken = {WORD}\n",
    ".dbt/profiles.yml": f"shop:\n  outputs:\n    dev:\n      type: snowflake\n      password: {WORD}\n",
    ".snowflake/connections.toml": f'[default]\naccount = "x"\npassword = "{WORD}"\n',
    ".snowsql/config": f"[connections]\nusername = ada\npassword = {WORD}\n",
    # Packages
    ".npmrc": f"registry=https://npm.example/\n//npm.example/:_authToken={WORD}\nsave-exact=true\n",
    ".yarnrc.yml": f'npmRegistryServer: "https://npm.example"\nnpmAuthToken: "{WORD}"\n',
    ".pypirc": f"[pypi]\nusername = __token__\npassword = {WORD}\n",
    ".config/pip/pip.conf": f"[global]\nindex-url = https://ada:{WORD}@pypi.example/simple\ntimeout = 60\n",
    ".pip/pip.conf": f"[global]\nextra-index-url = https://ada:{WORD}@pypi.example/simple\n",
    ".config/uv/uv.toml": f'[[index]]\nurl = "https://ada:{WORD}@pypi.example/simple"\n',
    ".local/share/uv/credentials/credentials.toml": f'[[credential]]\nusername = "a"\npassword = "{WORD}"\n',
    ".config/pypoetry/auth.toml": f'[pypi-token]\npypi = "{WORD}"\n',
    ".config/hatch/config.toml": f'[publish.index]\nuser = "__token__"\nauth = "{WORD}"\n',
    ".cargo/credentials.toml": f'[registry]\ntoken = "{WORD}"\n',
    ".m2/settings.xml": _XML_SERVER,
    ".m2/settings-security.xml": f"<settingsSecurity><master>{{{WORD}=}}</master></settingsSecurity>\n",
    ".gradle/gradle.properties": f"org.gradle.jvmargs=-Xmx2g\nmavenPassword={WORD}\n",
    ".sbt/1.0/.credentials": f"realm=Sonatype\nhost=oss.example\nuser=ada\npassword={WORD}\n",
    ".ivy2/.credentials": f"realm=Artifactory\nhost=a.example\nuser=ada\npassword={WORD}\n",
    ".nuget/NuGet/NuGet.Config": (
        "<configuration><packageSourceCredentials><corp><add key='ClearTextPassword' "
        f"value='{WORD}' /></corp></packageSourceCredentials></configuration>\n"
    ),
    ".config/composer/auth.json": f'{{"github-oauth": {{"github.com": "{WORD}"}}}}\n',
    ".gem/credentials": f"---\n:rubygems_api_key: {WORD}\n",
    ".bundle/config": f'---\nBUNDLE_GEMS__EXAMPLE: "ada:{WORD}"\n',
    ".hex/hex.config": f"{{'$write_key',<<\"{WORD}\">>}}.\n",
    ".condarc": f"channels:\n  - https://conda.example/t/{WORD}/main\n",
    ".config/nix/nix.conf": f"experimental-features = flakes\naccess-tokens = github.com={WORD}\n",
    # Storage, back-ups, passwords
    ".config/rclone/rclone.conf": f'[drive]\ntype = drive\ntoken = {{"access_token":"{WORD}"}}\n',
    ".config/restic/password": WORD,
    ".s3cfg": f"[default]\naccess_key = AKIA\nsecret_key = {WORD}\n",
    ".config/borg/keys/backup": f"BORG_KEY 0123\n{WORD}\n",
    ".config/op/config": f'{{"accounts": [{{"userUUID": "x", "accountKey": "{WORD}"}}]}}\n',
    ".config/Bitwarden CLI/data.json": _JSON % "user_x_token_accessToken",
    ".password-store/mail.gpg": BINARY,
    ".local/share/keyrings/login.keyring": BINARY,
    ".local/share/kwalletd/kdewallet.kwl": BINARY,
    ".config/sops/age/keys.txt": f"# created\nAGE-SECRET-KEY-1{WORD.upper()}{WORD}\n",
    "passwords.kdbx": BINARY,
    # Mail, chat
    ".msmtprc": f"account x\nhost smtp.example\nuser ada\npassword {WORD}\n",
    ".mutt/muttrc": f'set imap_user = "ada"\nset imap_pass = "{WORD}"\n',
    ".irssi/config": f'chatnets = {{ x = {{ sasl_password = "{WORD}"; }}; }};\n',
    ".thunderbird/x.default/logins.json": f'{{"logins": [{{"encryptedPassword": "{WORD}"}}]}}\n',
    ".config/Signal/sql/db.sqlite": SQLITE,
    ".config/Slack/Cookies": SQLITE,
    # Databases
    ".pgpass": f"localhost:5432:*:ada:{WORD}\n",
    ".my.cnf": f"[client]\nuser=ada\npassword={WORD}\n",
    ".mylogin.cnf": BINARY,
    ".mongodb/mongosh/mongosh_repl_history": f'connect("mongodb://ada:{WORD}@db")\n',
    ".rediscli_history": f"AUTH {WORD}\n",
    ".psql_history": f"alter role ada password '{WORD}';\n",
    ".bash_history": f"curl -H 'X-Api-Key: {WORD}' https://api.example\n",
    ".local/share/fish/fish_history": f"- cmd: export TOKEN={WORD}\n",
    ".bashrc": f"alias ll='ls -l'\nexport PATH=$PATH:~/bin\nexport SOME_API_KEY={WORD}\n",
    # Models and agents
    ".cache/huggingface/token": WORD,
    ".cache/huggingface/stored_tokens": f"[main]\nhf_token = {WORD}\n",
    ".kaggle/kaggle.json": f'{{"username":"ada","key":"{WORD}"}}\n',
    ".config/wandb/settings": f"[default]\napi_key = {WORD}\n",
    ".openai/auth.json": _JSON % "api_key",
    ".config/anthropic/credentials/default.json": _JSON % "access_token",
    ".claude/.credentials.json": f'{{"claudeAiOauth": {{"accessToken": "{WORD}"}}}}\n',
    ".claude.json": f'{{"oauthAccount": {{"emailAddress": "a@b"}}, "primaryApiKey": "{WORD}"}}\n',
    ".codex/auth.json": f'{{"tokens": {{"access_token": "{WORD}"}}}}\n',
    ".gemini/oauth_creds.json": _JSON % "refresh_token",
    ".cursor/cli-config.json": f'{{"authInfo": {{"accessToken": "{WORD}"}}}}\n',
    ".config/github-copilot/apps.json": f'{{"github.com:Iv1": {{"oauth_token": "{WORD}"}}}}\n',
    ".local/share/opencode/auth.json": f'{{"anthropic": {{"type": "api", "key": "{WORD}"}}}}\n',
    ".config/goose/config.yaml": f"GOOSE_PROVIDER: openai\nOPENAI_API_KEY: {WORD}\n",
    ".config/goose/secrets.yaml": f"OPENAI_API_KEY: {WORD}\n",
    ".local/share/amazon-q/data.sqlite3": SQLITE,
    ".aider.conf.yml": f"model: sonnet\nopenai-api-key: {WORD}\n",
    ".continue/config.json": f'{{"models": [{{"title": "x", "apiKey": "{WORD}"}}]}}\n',
    ".config/io.datasette.llm/keys.json": f'{{"// Note": "secret", "openai": "{WORD}"}}\n',
    # Editors, browsers, wallets
    ".config/JetBrains/IU2025.1/c.kdbx": BINARY,
    ".config/Code/User/globalStorage/state.vscdb": SQLITE,
    ".vscode-server/data/User/globalStorage/state.vscdb": SQLITE,
    ".mozilla/firefox/x.default/key4.db": SQLITE,
    ".mozilla/firefox/x.default/cookies.sqlite": SQLITE,
    ".config/google-chrome/Default/Login Data": SQLITE,
    ".config/BraveSoftware/Brave-Browser/Default/Cookies": SQLITE,
    "snap/firefox/common/.mozilla/firefox/x/key4.db": SQLITE,
    ".var/app/org.chromium.Chromium/config/chromium/Default/Cookies": SQLITE,
    ".bitcoin/wallet.dat": BINARY,
    ".ethereum/keystore/UTC--2025": f'{{"crypto": {{"ciphertext": "{WORD}"}}}}\n',
    ".electrum/wallets/default_wallet": f'{{"keystore": {{"xprv": "{WORD}"}}}}\n',
    ".config/solana/id.json": str([*range(100, 164)]).replace(" ", ""),
    # Written after the rule, to see how far it reaches
    ".config/ngrok/ngrok.yml": f"version: 2\nauthtoken: {WORD}\n",
    ".circleci/cli.yml": f"host: https://circleci.com\ntoken: {WORD}\n",
    ".sentryclirc": f"[auth]\ntoken={WORD}\n",
    ".dogrc": f"[Connection]\napikey = {WORD}\nappkey = {WORD}\n",
    ".newrelic/credentials.json": f'{{"default": {{"apiKey": "{WORD}"}}}}',
    ".cloudflared/cert.pem": f"-----BEGIN ARGO TUNNEL TOKEN-----\n{WORD}\n",
    ".config/aerc/accounts.conf": f"[a]\nsource = imaps://ada:{WORD}@mail.example\n",
    ".offlineimaprc": f"[Repository r]\nremoteuser = ada\nremotepass = {WORD}\n",
    ".mbsyncrc": f"IMAPAccount a\nHost h\nUser ada\nPass {WORD}\n",
    ".fetchmailrc": f"poll h protocol imap user ada password {WORD}\n",
    ".config/pgcli/config": f"[alias_dsn]\nx = postgresql://ada:{WORD}@h/db\n",
    ".config/filezilla/sitemanager.xml": f'<Server><Pass encoding="base64">{WORD}</Pass></Server>\n',
    ".local/share/remmina/x.remmina": f"[remmina]\npassword={WORD}\nusername=a\n",
    ".config/lftp/bookmarks": f"x ftp://ada:{WORD}@h/\n",
    ".config/spotify-tui/client.yml": f"client_id: abc\nclient_secret: {WORD}\n",
    ".config/syncthing/config.xml": f"<gui><apikey>{WORD}</apikey></gui>\n",
    ".config/obs-studio/basic/profiles/x/service.json": f'{{"settings": {{"key": "{WORD}"}}}}',
    ".modal.toml": f'[x]\ntoken_id = "ak"\ntoken_secret = "{WORD}"\n',
    ".runpod/config.toml": f'apikey = "{WORD}"\n',
    ".config/shell_gpt/.sgptrc": f"OPENAI_API_KEY={WORD}\nDEFAULT_MODEL=x\n",
    ".config/fabric/.env": f"OPENAI_API_KEY={WORD}\n",
    ".tabnine/tabnine_config.json": f'{{"api_key": "{WORD}"}}',
    ".codeium/config.json": f'{{"apiKey": "{WORD}"}}',
    ".wakatime.cfg": f"[settings]\napi_key = {WORD}\n",
    ".config/exercism/user.json": f'{{"apibaseurl": "https://x", "token": "{WORD}"}}',
    ".config/vdirsyncer/config": f'[storage a]\nusername = "ada"\npassword = "{WORD}"\n',
    ".davfs2/secrets": f"https://dav.example ada {WORD}\n",
    ".smbcredentials": f"username=ada\npassword={WORD}\n",
    ".near-credentials/mainnet/x.json": f'{{"public_key": "ed", "private_key": "ed25519:{WORD}"}}',
    ".aptos/config.yaml": f'profiles:\n  default:\n    private_key: "{WORD}"\n',
    ".config/jgit/config": f'[remote "x"]\n url = https://ada:{WORD}@git.example/x.git\n',
    ".curlrc": f'user = "ada:{WORD}"\n',
    ".wgetrc": f"user=ada\npassword={WORD}\n",
    ".config/Postman/storage.json": f'{{"cookie": "{WORD}"}}',
    ".config/insomnia/insomnia.Request.db": f'{{"authentication":{{"type":"bearer","token":"{WORD}"}}}}\n',
    ".local/share/atuin/key": WORD,
    ".zhistory": f"export A={WORD}\n",
    ".mc/config.json": f'{{"hosts": {{"s3": {{"secretKey": "{WORD}"}}}}}}',
    ".config/linear/credentials": WORD,
    ".huaweicloud/config.json": f'{{"accessKeyId":"a","secretAccessKey":"{WORD}"}}',
    ".scw/x.yaml": f"access_key: SCW\nsecret_key: {WORD}\n",
    ".vercel/auth.json": f'{{"token": "{WORD}"}}',
    ".expo/state.json": f'{{"auth": {{"sessionSecret": "{WORD}"}}}}',
    ".shopify/x.json": f'{{"accessToken":"{WORD}"}}',
    ".ansible/vault_pass.txt": WORD,
    ".chef/config.rb": f"validation_key '{WORD}'\n",
}
"""Of a file below the home, what a tool wrote."""

NEEDS = {
    # Settings without a secret
    ".gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.com\n[credential]\n\thelper = store\n",
    ".gitconfig-work": "[user]\n\temail = ada@work.example\n\tsigningkey = 0xA1B2C3D4E5F60718\n",
    ".config/git/ignore": "*.swp\n.idea/\n",
    ".config/git/config": "[core]\n\texcludesFile = ~/.config/git/ignore\n",
    ".config/go/env": "GOPROXY=https://proxy.example,direct\nGONOSUMDB=example.com\n",
    ".config/pnpm/rc": "store-dir=/home/ada/.pnpm-store\nauto-install-peers=true\n",
    ".config/mise/config.toml": '[tools]\nnode = "20"\npython = "3.12"\n',
    ".config/matplotlib/matplotlibrc": "backend: Agg\nkeymap.save: s, ctrl+s\n",
    ".config/ruff/ruff.toml": 'line-length = 110\n[lint]\nselect = ["S105", "S106"]\n',
    ".config/pypoetry/config.toml": "[virtualenvs]\nin-project = true\n",
    ".config/fontconfig/fonts.conf": "<fontconfig><dir>~/.fonts</dir></fontconfig>\n",
    ".tool-versions": "nodejs 20.11.0\n",
    ".profile": 'export PATH="$HOME/bin:$PATH"\nexport TOKEN_FILE=~/.token\neval "$(ssh-agent)"\n',
    ".zshrc": 'source ~/.oh-my-zsh/oh-my-zsh.sh\nbindkey "^R" history-search\nexport KEYTIMEOUT=1\n',
    ".vimrc": 'set number\nlet g:password_hint = ""\nnnoremap <leader>k :set keymap=<CR>\n',
    ".editorconfig": "root = true\n[*]\nindent_size = 4\n",
    ".cargo/config.toml": '[registries.corp]\nindex = "sparse+https://c.example/"\n[net]\noffline = true\n',
    ".gradle/init.gradle": "allprojects { repositories { maven { url 'https://mirror.example' } } }\n",
    ".config/user-dirs.dirs": 'XDG_DESKTOP_DIR="$HOME/Desktop"\n',
    ".config/htop/htoprc": "fields=0 48 17\nsort_key=46\ntree_sort_key=0\n",
    ".inputrc": "set show-all-if-ambiguous on\n",
    # Toolchains and their data
    ".pyenv/versions/3.12.1/lib/python3.12/netrc.py": "class netrc:\n    password = None\n",
    ".pyenv/version": "3.12.1\n",
    ".nvm/versions/node/v20.11.0/lib/node_modules/npm/package.json": '{"name": "npm"}\n',
    ".nvm/nvm.sh": 'NVM_AUTH_HEADER="${NVM_AUTH_HEADER:-}"\nlocal token="${1}"\n',
    ".rustup/settings.toml": 'default_toolchain = "stable"\n',
    ".sdkman/candidates/java/21/release": 'JAVA_VERSION="21"\n',
    ".sdkman/etc/config": "sdkman_auto_answer=false\nsdkman_insecure_ssl=false\n",
    ".local/share/uv/python/cpython-3.12/lib/secrets.py": 'def token_hex(n=32):\n    """A token."""\n',
    ".local/bin/tool": "#!/bin/sh\nTOKEN=$(cat token)\n",
    ".local/lib/python3.12/site-packages/requests/auth.py": 'password = kwargs.get("password")\n',
    ".oh-my-zsh/plugins/aws/aws.plugin.zsh": "export AWS_SECRET_ACCESS_KEY=$2\n",
    ".local/share/fonts/Mono.ttf": "\0\1\0\0font\377",
    ".fonts/Sans.otf": "OTTO\0\377",
    ".themes/dark/gtk.css": "* { color: #fff }\n",
    # Caches
    ".cache/pip/http/a/b": "\0wheel\377",
    ".cache/uv/wheels/x.whl": "PK\3\4\0\377",
    ".cache/huggingface/hub/models--x/refs/main": "abc\n",
    ".npm/_cacache/index-v5/01/entry": '{"key":"make-fetch-happen:request-cache:https://npm.example/x"}\n',
    ".cargo/registry/src/index/jsonwebtoken/src/lib.rs": "pub struct Token { secret: String }\n",
    ".m2/repository/org/x/1/x.pom": "<project/>\n",
    ".gradle/caches/modules-2/files/x.jar": "PK\3\4\0\377",
    "go/pkg/mod/golang.org/x/oauth2/token.go": 'AccessToken string `json:"access_token"`\n',
    # The user's own work beside the repository
    "projects/other/README.md": "# Other\n",
    "notes.txt": "Buy milk\n",
    "bin/deploy": "#!/bin/sh\nexec make deploy\n",
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
