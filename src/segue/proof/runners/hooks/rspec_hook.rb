# Makes RSpec report every example. It is copied out of the package; SPEC_OPTS makes every rspec require it.
require "json"

module SegueRecorder
  KNOWN = JSON.parse(File.read(__FILE__.sub(/\.rb\z/, ".json")))
  UNLOADED = []

  def self.relative(path)
    File.expand_path(path.to_s).delete_prefix(KNOWN["root"] + "/")
  end

  def self.entry(example)
    result = example.execution_result
    error = result.exception
    outcome = { passed: "passed", failed: "failed" }.fetch(result.status, "skipped")
    file = relative(example.metadata[:absolute_file_path] || example.file_path)
    { id: "#{file}::#{example.full_description}", file: file, outcome: outcome,
      name: error ? name_of(error) : "", message: error ? "#{error.class}: #{error.message}"[0, 4000] : "" }
  end

  def self.name_of(error)
    return "AssertionError" if error.class.name.to_s.include?("ExpectationNotMet")

    { "NoMethodError" => "AttributeError", "LoadError" => "ImportError" }.fetch(error.class.name, error.class.name.to_s)
  end

  def self.write
    tests = RSpec.world.all_examples.select { |one| one.execution_result.status }.map { |one| entry(one) }
    part = File.join(KNOWN["reports"], "#{KNOWN["token"]}-#{Process.pid}.part")
    File.write(part, JSON.generate({ tests: tests + UNLOADED, runner: "rspec" }))
    File.rename(part, part.sub(/part\z/, "json"))
  end

  def notify_non_example_exception(error, context)
    if (path = context.to_s[/loading (\S+?)\.?\s*\z/, 1])
      file = SegueRecorder.relative(path)
      UNLOADED << { id: file, file: file, outcome: "failed", whole_file: true,
                    name: SegueRecorder.name_of(error), message: "#{error.class}: #{error.message}"[0, 4000] }
    end
    super
  end
end

require "rspec/core"
RSpec::Core::Reporter.prepend(SegueRecorder)
at_exit { SegueRecorder.write }
