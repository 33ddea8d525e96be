// A reporter for mocha that prints like its usual one and writes every test to a file at the end.
"use strict";

const fs = require("fs");
const path = require("path");

const KNOWN = JSON.parse(fs.readFileSync(__filename.replace(/-mocha\.cjs$/, ".json"), "utf8"));
const REPORT = process.env[`${KNOWN.token}_REPORT`];
const KEPT = 4000;
const beside = { paths: [path.dirname(fs.realpathSync(process.argv[1]))] };
const Spec = require(require.resolve("mocha/lib/reporters/spec", beside));

module.exports = class Reporter extends Spec {
  constructor(runner, options) {
    super(runner, options);
    const tests = (this.seen = []);
    runner.on("pass", (test) => tests.push(describe(test, "passed")));
    runner.on("pending", (test) => tests.push(describe(test, "skipped")));
    runner.on("fail", (test, error) => tests.push(describe(test, "failed", error)));
    runner.on("end", () => {
      fs.writeFileSync(`${REPORT}.part`, JSON.stringify({ tests }));
      fs.renameSync(`${REPORT}.part`, REPORT);
    });
  }

  // Mocha asks here for what is to be done with the number of failures: a canary is not one.
  done(failures, finish) {
    const canaries = this.seen.filter((test) => test.outcome === "failed" && test.names.includes(KNOWN.token));
    finish(failures - canaries.length);
  }
};

function describe(test, outcome, error) {
  const found = { file: test.file || "", names: test.titlePath(), outcome, name: "", message: "" };
  if (error) {
    found.name = error.name || "Error";
    found.message = String(error.stack || error.message || error).slice(0, KEPT);
  }
  return found;
}
