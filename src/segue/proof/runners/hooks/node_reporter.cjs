// A reporter for node:test that writes every test to a file once all have ended.
"use strict";

const fs = require("fs");

const KNOWN = JSON.parse(fs.readFileSync(__filename.replace(/-node\.cjs$/, ".json"), "utf8"));
const REPORT = process.env[`${KNOWN.token}_REPORT`];
const KEPT = 4000;

module.exports = async function* report(source) {
  const tests = [];
  const open = new Map(); // by file: the names of the suites and tests that have started
  const said = new Map(); // by file: the end of what it wrote to stderr, where Node says why it cannot load it
  for await (const { type, data } of source) {
    if (type === "test:start") {
      namesIn(open, data).length = data.nesting;
      namesIn(open, data)[data.nesting] = data.name;
    } else if (type === "test:stderr") {
      said.set(data.file, ((said.get(data.file) || "") + data.message).slice(-KEPT));
    } else if (type === "test:pass" || type === "test:fail") {
      tests.push(describe(type, data, [...namesIn(open, data).slice(0, data.nesting), data.name], said));
    }
  }
  fs.writeFileSync(`${REPORT}.part`, JSON.stringify({ tests }));
  fs.renameSync(`${REPORT}.part`, REPORT);
  yield "";
};

function namesIn(open, data) {
  if (!open.has(data.file)) open.set(data.file, []);
  return open.get(data.file);
}

function describe(type, data, names, said) {
  const skipped = data.skip !== undefined || data.todo !== undefined;
  const outcome = skipped ? "skipped" : type === "test:pass" ? "passed" : "failed";
  const details = data.details || {};
  const suite = details.type === "suite";
  const test = { file: data.file || "", names, outcome, suite, name: "", message: "" };
  if (outcome === "failed") {
    const outer = details.error || {};
    const error = outer.cause && typeof outer.cause === "object" ? outer.cause : outer;
    test.inner = outer.failureType === "subtestsFailed";
    test.name = error.name || "Error";
    test.message = String(error.stack || error.message || outer.cause || error).slice(0, KEPT);
    const ended = outer.failureType === "testCodeFailure" && typeof outer.cause === "string";
    if (ended && data.nesting === 0 && said.has(data.file)) test.message = said.get(data.file);
  }
  return test;
}
