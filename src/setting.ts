/** One setting: how its text or TOML value becomes a checked value, and what it is when nobody says anything. */
export interface Setting<Value> {
  readonly default: Value;
  readonly description: string;
  /** Shown in the help as `--flag <placeholder>`; a switch has none. */
  readonly placeholder: string | undefined;
  readonly hidden: boolean;
  /** From a flag, the environment or TOML; throws a sentence that says what is expected. */
  parse(given: unknown): Value;
}

interface Extra {
  hidden?: boolean;
}

export function integer(
  fallback: number,
  description: string,
  { minimum = 0, maximum = Number.MAX_SAFE_INTEGER, hidden = false }: Extra & Bounds = {},
): Setting<number> {
  return make(fallback, description, "n", hidden, (given) => {
    const value = numberFrom(given);
    if (!Number.isInteger(value) || value < minimum || value > maximum) {
      throw new Error(`expected a whole number ${range(minimum, maximum)}`);
    }
    return value;
  });
}

export function real(
  fallback: number,
  description: string,
  { minimum = 0, maximum = Number.MAX_VALUE, hidden = false }: Extra & Bounds = {},
): Setting<number> {
  return make(fallback, description, "number", hidden, (given) => {
    const value = numberFrom(given);
    if (!Number.isFinite(value) || value < minimum || value > maximum) {
      throw new Error(`expected a number ${range(minimum, maximum)}`);
    }
    return value;
  });
}

/** A setting that may stay unset: then something else, named in the description, decides. */
export function optional<Value>(setting: Setting<Value>): Setting<Value | undefined> {
  return { ...setting, default: undefined };
}

export function text(
  fallback: string,
  description: string,
  placeholder = "text",
  extra: Extra = {},
): Setting<string> {
  return make(fallback, description, placeholder, extra.hidden ?? false, (given) => {
    if (typeof given !== "string" || given.trim() === "")
      throw new Error("expected a text that is not empty");
    return given;
  });
}

/** A text that `check` returns in the form to use, or refuses with a sentence. */
export function address(
  fallback: string,
  description: string,
  check: (given: string) => string,
): Setting<string> {
  return make(fallback, description, "address", false, (given) => {
    if (typeof given !== "string") throw new Error("expected a text");
    return check(given.trim());
  });
}

/** An address, without slashes at its end; one of an OpenAI-compatible API has to end in `/v1`. */
export function url(description: string, { ending = "" }: { ending?: "" | "/v1" } = {}): Setting<string> {
  return make("", description, "url", false, (given) => {
    if (typeof given !== "string" || !URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol)) {
      throw new Error("expected an address that starts with http:// or https://");
    }
    const address = given.replace(/\/+$/, "");
    if (address.endsWith(ending)) return address;
    throw new Error(`expected an address that ends in ${ending}, such as http://127.0.0.1:8000${ending}`);
  });
}

export function choice<const Value extends string>(
  values: readonly Value[],
  fallback: NoInfer<Value>,
  description: string,
  extra: Extra = {},
): Setting<Value> {
  return make(fallback, `${description} (${values.join(" | ")})`, "name", extra.hidden ?? false, (given) => {
    const found = values.find((value) => value === given || value === String(given).toLowerCase());
    if (found === undefined) throw new Error(`expected one of ${values.join(", ")}`);
    return found;
  });
}

/** Several texts: an array in TOML, with commas between them in the environment, and a flag that may be repeated. */
export function list(
  description: string,
  placeholder: string,
  check: (item: string) => string,
): Setting<readonly string[]> {
  return make([] as readonly string[], `${description}; may be repeated`, placeholder, false, (given) => {
    const items = typeof given === "string" ? given.split(",") : given;
    if (!Array.isArray(items)) throw new Error("expected a list of texts");
    return items.map((item) => {
      if (typeof item !== "string" || item.trim() === "")
        throw new Error("expected texts that are not empty");
      return check(item.trim());
    });
  });
}

export function toggle(description: string, extra: Extra = {}): Setting<boolean> {
  return make(false, description, undefined, extra.hidden ?? false, (given) => {
    if (typeof given === "boolean") return given;
    if (typeof given === "string") {
      const word = given.trim().toLowerCase();
      if (["1", "true", "yes", "on"].includes(word)) return true;
      if (["0", "false", "no", "off"].includes(word)) return false;
    }
    throw new Error("expected true or false");
  });
}

interface Bounds {
  minimum?: number;
  maximum?: number;
}

function make<Value>(
  fallback: Value,
  description: string,
  placeholder: string | undefined,
  hidden: boolean,
  parse: (given: unknown) => Value,
): Setting<Value> {
  return { default: fallback, description, placeholder, hidden, parse };
}

/** Flags and the environment give text; in TOML a number has to be a number. */
function numberFrom(given: unknown): number {
  if (typeof given === "number") return given;
  if (given instanceof FlagText && given.value.trim() !== "") return Number(given.value);
  return Number.NaN;
}

/** Text that came from a flag or the environment, so that numbers may be written in it. */
export class FlagText {
  readonly value: string;

  constructor(value: string) {
    this.value = value;
  }
}

function range(minimum: number, maximum: number): string {
  if (maximum === Number.MAX_SAFE_INTEGER || maximum === Number.MAX_VALUE) return `of at least ${minimum}`;
  return `from ${minimum} to ${maximum}`;
}
