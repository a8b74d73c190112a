// The `openai` package for Node.js.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { serve, text, toolParameters, versionOf } from './lines.mjs';

const found = createRequire(`${process.env.INTEROP_NODE}/`).resolve('openai');
const { default: OpenAI } = await import(pathToFileURL(found));

const tools = {
  tools: [{ type: 'function', function: { name: 'look', parameters: toolParameters } }],
  tool_choice: { type: 'function', function: { name: 'look' } },
};

const client = (ask) =>
  new OpenAI({
    baseURL: `${ask.base_url}/v1`,
    apiKey: ask.api_key,
    ...(ask.max_retries == null ? {} : { maxRetries: ask.max_retries }),
    ...(ask.timeout == null ? {} : { timeout: ask.timeout * 1000 }),
  });

const openChat = (ask, more = {}) =>
  client(ask).chat.completions.create({
    model: ask.model,
    messages: [{ role: 'user', content: text(ask) }],
    max_tokens: ask.max_tokens,
    ...more,
  });

async function chat(ask, more) {
  const answer = await openChat(ask, more);
  return {
    texts: answer.choices.map((choice) => choice.message.content),
    finish: answer.choices[0].finish_reason,
    tokens: answer.usage.completion_tokens,
  };
}

async function stream(ask) {
  const chunks = [];
  for await (const chunk of await openChat(ask, { stream: true })) chunks.push(chunk);
  return {
    texts: [chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? '').join('')],
    finish: chunks.at(-1).choices[0].finish_reason,
    pieces: chunks.length,
  };
}

async function leave(ask) {
  for await (const _chunk of await openChat(ask, { stream: true })) break;
}

async function tool(ask) {
  const answer = await openChat(ask, tools);
  return answer.choices[0].message.tool_calls[0].function;
}

async function toolStream(ask) {
  const call = { name: '', arguments: '' };
  for await (const chunk of await openChat(ask, { stream: true, ...tools })) {
    for (const delta of chunk.choices[0]?.delta?.tool_calls ?? []) {
      call.name += delta.function.name ?? '';
      call.arguments += delta.function.arguments ?? '';
    }
  }
  return call;
}

async function completion(ask) {
  const answer = await client(ask).completions.create({
    model: ask.model,
    prompt: ['one', 'two'],
    max_tokens: ask.max_tokens,
  });
  return {
    texts: answer.choices.map((choice) => choice.text),
    finish: answer.choices[0].finish_reason,
    tokens: answer.usage.completion_tokens,
  };
}

async function embeddings(ask) {
  const input = Array.from({ length: ask.count }, (_, number) => `text ${number}`);
  const answer = await client(ask).embeddings.create({ model: ask.model, input });
  return answer.data.map((item) => item.embedding.length);
}

async function models(ask) {
  return (await client(ask).models.list()).data.map((model) => model.id);
}

async function respond(ask) {
  const asked = { model: ask.model, input: 'hello', max_output_tokens: ask.max_tokens };
  const answer = await client(ask).responses.create(asked);
  return { texts: [answer.output_text], tokens: answer.usage.output_tokens };
}

async function respondStream(ask) {
  const asked = { model: ask.model, input: 'hello', max_output_tokens: ask.max_tokens };
  const types = [];
  for await (const event of await client(ask).responses.create({ ...asked, stream: true })) {
    types.push(event.type);
  }
  return types;
}

await serve(versionOf('openai'), {
  chat,
  n: (ask) => chat(ask, { n: 2 }),
  stream,
  leave,
  tool,
  tool_stream: toolStream,
  completion,
  embeddings,
  models,
  respond,
  respond_stream: respondStream,
});
