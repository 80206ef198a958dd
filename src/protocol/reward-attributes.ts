import { UsageError } from "../errors.ts";
import { attributeKeys } from "./semconv.ts";
import type { Attributes } from "./types.ts";

export type RewardValue = number | boolean | { [dimension: string]: number | boolean };

/** Attributes of a reward span. With several dimensions, the primary one comes first and is the reward. */
export function rewardAttributes(value: RewardValue, primaryKey?: string): Attributes {
  const attributes: Attributes = {};
  dimensionsOf(value, primaryKey).forEach(([name, amount], index) => {
    attributes[`${attributeKeys.rewardPrefix}.${index}.name`] = name;
    attributes[`${attributeKeys.rewardPrefix}.${index}.value`] = finiteReward(amount, name);
  });
  return attributes;
}

function dimensionsOf(value: unknown, primaryKey: string | undefined): [string, unknown][] {
  if (typeof value !== "object" || value === null) return [["primary", value]];
  if (primaryKey === undefined || !Object.hasOwn(value, primaryKey)) {
    const names = Object.keys(value).join(", ");
    throw new UsageError(
      `reward: the primary dimension ${JSON.stringify(primaryKey)} is not one of: ${names}`,
      "Name the dimension that counts, for example { accuracy: 1, length: 0.2 } with primary key accuracy.",
    );
  }
  const entries = Object.entries(value);
  return [
    ...entries.filter(([name]) => name === primaryKey),
    ...entries.filter(([name]) => name !== primaryKey),
  ];
}

function finiteReward(value: unknown, name: string): number {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new UsageError(
    `reward: ${name} is ${typeof value === "number" ? String(value) : (JSON.stringify(value) ?? "undefined")}`,
    "A reward is a finite number, true or false.",
  );
}
