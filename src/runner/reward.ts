/** A reward that cannot be used: the attempt fails and says which. */
export class InvalidRewardError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "InvalidRewardError";
  }
}

/** The final reward in what an agent returned; null when it returned nothing. */
export function rewardOf(returned: unknown): number | null {
  return returned === undefined || returned === null ? null : finiteReward(returned);
}

export function finiteReward(value: unknown): number {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  const shown = typeof value === "number" ? String(value) : describe(value);
  throw new InvalidRewardError(`a reward must be a finite number, true or false, but this is ${shown}`);
}

function describe(value: unknown): string {
  if (typeof value === "string") return `the text ${JSON.stringify(value.slice(0, 80))}`;
  if (Array.isArray(value)) return "a list";
  return `of type ${typeof value}`;
}
