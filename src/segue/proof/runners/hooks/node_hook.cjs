// Makes jest, vitest, mocha and node:test report every test, and forgives them the canaries: tests that must fail.
//
// It is copied out of the package under a random name; NODE_OPTIONS makes every Node process require it. It runs in
// the project's own Node, which need not know Segue. The file of the same name that ends in .json says where reports go.
"use strict";

const fs = require("fs");
const path = require("path");
const { isMainThread } = require("worker_threads");

const KNOWN = JSON.parse(fs.readFileSync(__filename.replace(/\.cjs$/, ".json"), "utf8"));
// What makes a run fail although all of its tests passed.
const COMPLAINT = /coverage.*threshold|does not meet .*threshold|Unhandled (?:Error|Rejection)|uncaughtException/i;
const RUNNERS = [
  [/\/node_modules\/jest(?:-cli)?\/bin\/jest\.js$/, watchJest],
  [/\/node_modules\/vitest\/vitest\.mjs$/, watchVitest],
  [/\/node_modules\/mocha\/bin\/_?mocha(?:\.c?js)?$/, watchMocha],
];

function start() {
  if (!isMainThread || process.env.NODE_TEST_CONTEXT) return;
  const script = realPath(process.argv[1]);
  for (const [pattern, watch] of RUNNERS) {
    if (pattern.test(script)) return watch();
  }
  const flags = process.execArgv.filter((flag) => flag.startsWith("--test"));
  const asked = flags.some((flag) => flag.includes(KNOWN.token));
  if (!asked && (flags.includes("--test") || KNOWN.scripts.includes(script))) runAgain(flags);
}

function watchJest() {
  const report = reportPath("jest");
  drop(/^(?:--outputFile|--bail|-b)$/, /^--(?:outputFile|bail)=/);
  ask(["--ci", "--bail=0", "--json", `--outputFile=${report}`]);
  forgive(report, failuresOfSuites);
}

function watchVitest() {
  if (["list", "bench", "init", "complete"].includes(process.argv[2])) return;
  const report = reportPath("vitest");
  drop(/^(?:--outputFile|--bail|--reporter)$/, /^--(?:outputFile|bail|reporter)\b.*=/);
  ask(["--no-cache", "--bail=0", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`]);
  forgive(report, failuresOfSuites);
  // Dependencies are read-only. Vite has a way around that, but only for this error.
  const make = fs.promises.mkdir;
  fs.promises.mkdir = (...args) =>
    make(...args).catch((error) => {
      if (error.code === "EROFS") error.code = "EACCES";
      throw error;
    });
  require("module").syncBuiltinESMExports();
}

function watchMocha() {
  const report = reportPath("mocha");
  process.env[`${KNOWN.token}_REPORT`] = report;
  drop(/^(?:--reporter|-R|--bail|-b|--reporter-options?|-O)$/, /^--(?:reporter|reporter-options?|bail)\b=/);
  ask(["--no-bail", `--reporter=${__filename.replace(/\.cjs$/, "-mocha.cjs")}`]);
}

// Starts the same process again with our reporter beside those that were asked for.
function runAgain(flags) {
  const allowed = process.allowedNodeEnvironmentFlags;
  if (!allowed || !allowed.has("--test-reporter")) return;
  const report = reportPath("node");
  const values = process.execArgv.join("\n");
  const theirs = (values.match(/^--test-reporter(?:=|$)/gm) || []).length;
  const places = (values.match(/^--test-reporter-destination(?:=|$)/gm) || []).length;
  const more = theirs === 0 ? ["--test-reporter=spec"] : [];
  if (places < Math.max(theirs, 1)) more.push("--test-reporter-destination=stdout");
  more.push(`--test-reporter=${__filename.replace(/\.cjs$/, "-node.cjs")}`);
  more.push("--test-reporter-destination=/dev/null");
  for (const name of wantedNames()) more.push(`--test-name-pattern=${name}`);
  const env = { ...process.env, [`${KNOWN.token}_REPORT`]: report };
  const done = require("child_process").spawnSync(
    process.execPath,
    [...process.execArgv, ...more, ...process.argv.slice(1)],
    { stdio: "inherit", env },
  );
  const code = done.status === null ? 1 : done.status;
  process.reallyExit(code && onlyCanaries(report, failuresOfTests) ? 0 : code);
}

// A test alone, and the canaries; those inside of suites have names that depend on Node's version.
function wantedNames() {
  if (!KNOWN.blind || KNOWN.wanted.length !== 1 || KNOWN.wanted[0].includes(" > ")) return [];
  const name = KNOWN.wanted[0].split("::").slice(1).join("::");
  return name ? [`^${escape(name)}$`, `^${KNOWN.token}$`] : [];
}

function escape(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

// Options of the runner go before `--`, which ends them.
function ask(options) {
  const end = process.argv.indexOf("--", 2);
  process.argv.splice(end < 0 ? process.argv.length : end, 0, ...options);
}

// Removes options that stand in the way; those of the first pattern may have a value in the next word.
function drop(alone, joined) {
  const words = process.argv;
  for (let at = 2; at < words.length && words[at] !== "--"; ) {
    if (joined.test(words[at])) words.splice(at, 1);
    else if (alone.test(words[at])) words.splice(at, hasValue(words, at) ? 2 : 1);
    else at += 1;
  }
}

function hasValue(words, at) {
  const next = words[at + 1];
  if (next === undefined || next.startsWith("-")) return false;
  return /bail|^-b$/.test(words[at]) ? /^\d+$/.test(next) : true;
}

// A run in which nothing but canaries failed has not failed.
function forgive(report, failures) {
  let complained = false;
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write;
    stream.write = function (text, ...rest) {
      complained = complained || COMPLAINT.test(String(text));
      return write.call(this, text, ...rest);
    };
  }
  const decide = () => {
    if (process.exitCode && !complained && onlyCanaries(report, failures)) process.exitCode = 0;
  };
  process.on("exit", decide);
  // Runners set the exit code when the process exits: ours is to be the last word.
  process.on("newListener", (event, listener) => {
    if (event !== "exit" || listener === decide) return;
    queueMicrotask(() => process.removeListener("exit", decide).on("exit", decide));
  });
}

function onlyCanaries(report, failures) {
  try {
    const names = failures(JSON.parse(fs.readFileSync(report, "utf8")));
    return names.length > 0 && names.every((name) => name === KNOWN.token);
  } catch {
    return false;
  }
}

function failuresOfSuites(report) {
  return report.testResults.flatMap((suite) => {
    const failed = suite.assertionResults.filter((test) => test.status === "failed");
    const unexplained = suite.status === "failed" && failed.length === 0;
    return unexplained ? [suite.name] : failed.map((test) => test.title);
  });
}

function failuresOfTests(report) {
  return report.tests.filter((test) => test.outcome === "failed").map((test) => test.names[test.names.length - 1]);
}

function reportPath(runner) {
  return path.join(KNOWN.reports, `${runner}-${KNOWN.token}-${process.pid}-${Date.now()}.json`);
}

function realPath(script) {
  try {
    return fs.realpathSync(script);
  } catch {
    return String(script);
  }
}

// Lets no test file be found by the product: who reads it is the first of the project's own files on the stack.
function hideTests() {
  const hidden = new Set(KNOWN.placed.map((file) => path.join(KNOWN.root, file)));
  const own = new RegExp(`${escape(KNOWN.root)}/[^\\s():]+`);
  const isProduct = () => {
    const frames = new Error().stack.split("\n").map((line) => (line.match(own) || [""])[0]);
    const first = frames.find((file) => file && !file.includes("/node_modules/"));
    return first !== undefined && !hidden.has(first);
  };
  const blind = (owner, name) => {
    const read = owner[name];
    owner[name] = function (file, ...rest) {
      const place = file instanceof URL ? file.pathname : typeof file === "string" ? path.resolve(file) : "";
      return read.call(this, hidden.has(place) && isProduct() ? `${place}.gone` : file, ...rest);
    };
  };
  for (const name of ["readFileSync", "openSync", "readFile", "open", "createReadStream"]) blind(fs, name);
  for (const name of ["readFile", "open"]) blind(fs.promises, name);
  require("module").syncBuiltinESMExports();
  const told = (name) => /^(?:NODE_TEST|JEST|VITEST|MOCHA)/.test(String(name)) && isProduct();
  process.env = new Proxy(process.env, {
    get: (env, name) => (told(name) ? undefined : env[name]),
    has: (env, name) => !told(name) && name in env,
    ownKeys: (env) => Reflect.ownKeys(env).filter((name) => !told(name)),
  });
  const options = process.execArgv;
  const get = () => (isProduct() ? options.filter((word) => !word.includes("test")) : options);
  Object.defineProperty(process, "execArgv", { get, configurable: true });
}

if (KNOWN.blind) hideTests();
start();
