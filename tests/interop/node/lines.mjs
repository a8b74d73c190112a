// One client library in a process of its own; the same lines as drivers/lines.py.
import { createInterface } from 'node:readline';
import { readFileSync } from 'node:fs';

export const toolParameters = {
  type: 'object',
  properties: { full: { type: 'boolean' } },
  required: ['full'],
  additionalProperties: false,
};

export const text = (ask) => ask.text ?? 'hello there';

const family = (error) => {
  const names = [];
  for (let kind = error?.constructor; kind?.name; kind = Object.getPrototypeOf(kind)) {
    names.push(kind.name);
  }
  return names;
};

export const described = (error) => ({
  class: error?.constructor?.name,
  family: family(error),
  status: error?.status ?? null,
  code: error?.code ?? null,
  message: error?.message ?? String(error),
  request_id: error?.requestID ?? null,
});

export async function serve(version, calls, describe = described) {
  const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
  say({ version });
  for await (const line of createInterface({ input: process.stdin })) {
    const ask = JSON.parse(line);
    try {
      say({ returned: (await calls[ask.call](ask)) ?? null });
    } catch (error) {
      say({ raised: describe(error) });
    }
  }
}

export const versionOf = (name) =>
  JSON.parse(readFileSync(`${process.env.INTEROP_NODE}/node_modules/${name}/package.json`)).version;
