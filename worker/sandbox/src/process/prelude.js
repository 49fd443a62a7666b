// The script's world, evaluated before the script.
//
// The script may change every object that it can reach, so nothing here that runs after it has
// begun looks anything up on a built-in object: what is needed was taken beforehand, lists have no
// prototype (an index that is set must not meet a setter of Array.prototype), descriptors neither, and
// there is no template literal and no spreading of lists (the engine looks methods up for both).

const { apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { freeze, hasOwn, setPrototypeOf } = Object;
const { parse, stringify, rawJSON } = JSON;
const { isArray } = Array;
const { isFinite: isFiniteNumber } = Number;
const isError = Error.isError;
/** What a template literal would do, which the engine does with String.prototype.concat. */
const str = String;

const uncurry = (method) => (self, ...args) => apply(method, self, args);
const getter = (object, name) => uncurry(getOwnPropertyDescriptor(object, name).get);

const bigintToString = uncurry(BigInt.prototype.toString);
const isWellFormed = uncurry(String.prototype.isWellFormed);
const toWellFormed = uncurry(String.prototype.toWellFormed);
const sliceText = uncurry(String.prototype.slice);
const startsWith = uncurry(String.prototype.startsWith);
const splitText = uncurry(String.prototype.split);
const includesText = uncurry(String.prototype.includes);
const symbolToString = uncurry(Symbol.prototype.toString);
const dateToISO = uncurry(Date.prototype.toISOString);
const dateValue = uncurry(Date.prototype.getTime);
const regexpSource = getter(RegExp.prototype, 'source');
const mapSize = getter(Map.prototype, 'size');
const mapForEach = uncurry(Map.prototype.forEach);
const setSize = getter(Set.prototype, 'size');
const setForEach = uncurry(Set.prototype.forEach);
const typedArrayTag = getter(getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag);
const typedArrayLength = getter(getPrototypeOf(Uint8Array.prototype), 'length');
const bufferLength = getter(ArrayBuffer.prototype, 'byteLength');
const errorStack = getter(Error.prototype, 'stack');

const NativeBigInt = BigInt;
const NativePromise = Promise;
const NativeDate = Date;
const NativeTypeError = TypeError;
const NativeRangeError = RangeError;
const ObjectPrototype = Object.prototype;
const nativeQueueMicrotask = queueMicrotask;

/** The methods of a class, as the prototype of instances that keep them whatever becomes of the class. */
function methods(prototype, ...names) {
  const kept = { __proto__: null };
  for (let i = 0; i < names.length; i++) kept[names[i]] = prototype[names[i]];
  return freeze(kept);
}
const NativeMap = Map;
const mapMethods = methods(Map.prototype, 'get', 'set', 'has', 'delete');
const list = () => setPrototypeOf([], null);
const safeMap = () => setPrototypeOf(new NativeMap(), mapMethods);

const data = (value, enumerable = false) => ({ __proto__: null, value, enumerable, writable: true, configurable: true });
const define = (object, name, value) => defineProperty(object, name, data(value));

/** JSON, with BigInts as the integers that they are; undefined for what JSON cannot say. */
const toJson = (value) => stringify(value, exactIntegers);
const exactIntegers = (_, value) => (typeof value === 'bigint' ? rawJSON(bigintToString(value)) : value);

// ---- inspect: what console writes, the same on every replay, without calling a getter

const LINE = 8192;
const DEPTH = 4;
const ITEMS = 100;

/** Thrown when the line is full. */
const FULL = freeze({ __proto__: null });

function inspect(value) {
  const out = { __proto__: null, text: '', seen: list() };
  try {
    write(out, value, 0);
  } catch (error) {
    if (error !== FULL) out.text += '[unreadable]';
  }
  return out.text;
}

function put(out, text) {
  out.text += text;
  if (out.text.length > LINE) throw FULL;
}

function write(out, value, depth) {
  switch (typeof value) {
    case 'string': return put(out, depth === 0 ? value : stringify(sliceText(value, 0, LINE)));
    case 'bigint': return put(out, bigintToString(value) + 'n');
    case 'symbol': return put(out, symbolToString(value));
    case 'number': return put(out, value === 0 && 1 / value < 0 ? '-0' : str(value));
    case 'function': return put(out, '[Function: ' + (ownText(value, 'name') || '(anonymous)') + ']');
    case 'object': return value === null ? put(out, 'null') : writeObject(out, value, depth);
    default: return put(out, str(value));
  }
}

function ownText(object, name) {
  const found = getOwnPropertyDescriptor(object, name);
  return found !== undefined && hasOwn(found, 'value') && typeof found.value === 'string' ? found.value : '';
}

function writeObject(out, object, depth) {
  const { seen } = out;
  for (let i = 0; i < seen.length; i++) if (seen[i] === object) return put(out, '[Circular]');
  if (isError(object)) return put(out, errorText(object));
  const brand = brandOf(object);
  if (brand !== undefined) return put(out, brand);
  if (depth >= DEPTH) return put(out, isArray(object) ? '[Array]' : '[Object]');
  seen[seen.length] = object;
  if (isArray(object)) writeArray(out, object, depth);
  else if (!writeCollection(out, object, depth)) writeMembers(out, object, depth);
  seen.length -= 1;
}

/** The text of an object that is one value: a date, a pattern, bytes. */
function brandOf(object) {
  try {
    const time = dateValue(object);
    return time === time ? dateToISO(object) : 'Invalid Date';
  } catch {}
  try {
    return '/' + regexpSource(object) + '/';
  } catch {}
  const tag = typedArrayTag(object);
  if (tag !== undefined) return (str(tag) + '(' + str(typedArrayLength(object)) + ')');
  try {
    return ('ArrayBuffer(' + str(bufferLength(object)) + ')');
  } catch {}
  return undefined;
}

function writeArray(out, array, depth) {
  const length = getOwnPropertyDescriptor(array, 'length').value;
  put(out, '[');
  for (let i = 0; i < length && i < ITEMS; i++) {
    put(out, i === 0 ? ' ' : ', ');
    writeMember(out, array, str(i), depth);
  }
  if (length > ITEMS) put(out, ', … ' + str(length - ITEMS) + ' more');
  put(out, length === 0 ? ']' : ' ]');
}

function writeCollection(out, object, depth) {
  let size;
  let isMap = true;
  try {
    size = mapSize(object);
  } catch {
    isMap = false;
    try {
      size = setSize(object);
    } catch {
      return false;
    }
  }
  put(out, (isMap ? 'Map' : 'Set') + '(' + str(size) + ') {');
  let count = 0;
  (isMap ? mapForEach : setForEach)(object, (value, key) => {
    if (count++ >= ITEMS) return;
    put(out, count === 1 ? ' ' : ', ');
    if (isMap) {
      write(out, key, depth + 1);
      put(out, ' => ');
    }
    write(out, value, depth + 1);
  });
  if (size > ITEMS) put(out, ', … ' + str(size - ITEMS) + ' more');
  put(out, size === 0 ? '}' : ' }');
  return true;
}

function writeMembers(out, object, depth) {
  const prototype = getPrototypeOf(object);
  if (prototype !== null && prototype !== ObjectPrototype) {
    const maker = getOwnPropertyDescriptor(prototype, 'constructor');
    const name = maker !== undefined && hasOwn(maker, 'value') && typeof maker.value === 'function' ? ownText(maker.value, 'name') : '';
    if (name !== '') put(out, str(name) + ' ');
  }
  const keys = ownKeys(object);
  let count = 0;
  put(out, '{');
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    const found = getOwnPropertyDescriptor(object, key);
    if (found === undefined || !found.enumerable) continue;
    if (count++ >= ITEMS) continue;
    put(out, count === 1 ? ' ' : ', ');
    put(out, typeof key === 'symbol' ? ('[' + symbolToString(key) + ']: ') : (plainName(key) ? key : stringify(key)) + ': ');
    writeMember(out, object, key, depth);
  }
  if (count > ITEMS) put(out, ', … ' + str(count - ITEMS) + ' more');
  put(out, count === 0 ? '}' : ' }');
}

function plainName(key) {
  if (key.length === 0 || key.length > 64) return false;
  for (let i = 0; i < key.length; i++) {
    const c = key[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c === '_' || c === '$' || (i > 0 && c >= '0' && c <= '9'))) return false;
  }
  return true;
}

function writeMember(out, object, key, depth) {
  const found = getOwnPropertyDescriptor(object, key);
  if (found === undefined) put(out, '<empty>');
  else if (hasOwn(found, 'value')) write(out, found.value, depth + 1);
  else put(out, '[Getter]');
}

/** `Name: message` of what was thrown, whatever it is. */
function summary(thrown) {
  try {
    if (!isError(thrown)) return 'Uncaught ' + inspect(thrown);
    const { name, message } = thrown;
    return message === '' ? str(name) : (str(name) + ': ' + str(message));
  } catch {
    return 'Error: (its name and message cannot be read)';
  }
}

/** The stack that the engine wrote when the error was made, without the frames of this file. */
function stackOf(thrown) {
  if (!isError(thrown)) return null;
  const stack = errorStack(thrown);
  if (typeof stack !== 'string') return null;
  const lines = splitText(stack, '\n');
  let kept = '';
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    if (line !== '' && !includesText(line, 'rewind:') && !includesText(line, '(native)')) kept += line + '\n';
  }
  return kept === '' ? null : kept;
}

const errorText = (error) => {
  const stack = stackOf(error);
  return stack === null ? summary(error) : (summary(error) + '\n' + sliceText(stack, 0, stack.length - 1));
};

// ---- ToolError

const secret = freeze({ __proto__: null });
/** Those that Rewind made, and what it made them of. */
const toolErrors = setPrototypeOf(new WeakMap(), methods(WeakMap.prototype, 'get', 'set'));

class ToolError extends Error {
  constructor(token, fields) {
    if (token !== secret) throw new NativeTypeError('only Rewind makes a ToolError: throw an Error of your own');
    super(fields.message);
    const { code, tool, retryable, details, key } = fields;
    defineProperty(this, 'code', data(code, true));
    defineProperty(this, 'tool', data(tool, true));
    defineProperty(this, 'retryable', data(retryable, true));
    defineProperty(this, 'details', data(details, true));
    defineProperty(this, 'key', data(key, true));
    toolErrors.set(this, fields);
  }
}
define(ToolError.prototype, 'name', 'ToolError');
freeze(ToolError.prototype);
freeze(ToolError);

const toolError = (code, tool, message, retryable, details, key) =>
  new ToolError(secret, { __proto__: null, code, tool, message, retryable, details, key });

// ---- Date

function makeDate(host) {
  function Date(...args) {
    if (new.target === undefined) return apply(dateToText, new NativeDate(host.now()), []);
    if (args.length === 0) args = [host.now()];
    return construct(NativeDate, args, new.target);
  }
  const dateToText = NativeDate.prototype.toString;
  define(Date, 'now', { now: () => host.now() }.now);
  define(Date, 'parse', NativeDate.parse);
  define(Date, 'UTC', NativeDate.UTC);
  defineProperty(Date, 'length', { __proto__: null, value: 7 });
  defineProperty(Date, 'prototype', { __proto__: null, value: NativeDate.prototype, writable: false });
  define(NativeDate.prototype, 'constructor', Date);
  return Date;
}

// ---- everything that a run has of its own

function install(host) {
  const pending = safeMap();
  const exportNames = host.exports;

  const thrown = (error) => {
    const made = typeof error === 'object' && error !== null ? toolErrors.get(error) : undefined;
    host.threw({
      __proto__: null,
      message: toWellFormed(summary(error)),
      stack: stackOf(error),
      code: made?.code ?? null,
      tool: made?.tool ?? null,
      key: made?.key ?? null,
    });
  };

  // -- tools

  function argumentsOf(args, tool) {
    let json;
    try {
      json = args === undefined ? '{}' : toJson(args);
    } catch (error) {
      throw toolError('invalid_arguments', tool, 'the arguments of ' + tool + ' cannot be written as JSON: ' + summary(error), false, undefined, null);
    }
    if (json === undefined) throw toolError('invalid_arguments', tool, 'the arguments of ' + tool + ' are a ' + typeof args + ', which JSON cannot say', false, undefined, null);
    if (json.length > host.maxArgumentBytes) {
      throw toolError('too_large', tool, 'the arguments of ' + tool + ' are ' + str(json.length) + ' characters of JSON; the limit is ' + str(host.maxArgumentBytes), false, undefined, null);
    }
    return json;
  }

  // The host is called outside of the promise's executor, which would make a rejection of the error
  // that ends a run over its limits.
  const call = (index, name, args, raw) => {
    const tool = exportNames[index] + '.' + name;
    let json;
    try {
      json = argumentsOf(args, tool);
    } catch (error) {
      return new NativePromise((_, reject) => reject(error));
    }
    const seq = host.call(index, name, json, raw);
    return new NativePromise((resolve, reject) => pending.set(seq, { __proto__: null, resolve, reject, tool }));
  };

  function makeTool(index, name) {
    const tool = (args) => call(index, name, args, false);
    const raw = (args) => call(index, name, args, true);
    defineProperty(tool, 'name', { __proto__: null, value: name });
    defineProperty(raw, 'name', { __proto__: null, value: 'raw' });
    defineProperty(tool, 'raw', { __proto__: null, value: freeze(raw), enumerable: true });
    return freeze(tool);
  }

  /** Tools are made when a script first looks at them: a server may have hundreds. */
  function makeExport(index) {
    const member = (made, name) => {
      if (typeof name !== 'string') return undefined;
      const known = made[name];
      if (known !== undefined || !isWellFormed(name) || !host.has(index, name)) return known;
      const tool = makeTool(index, name);
      defineProperty(made, name, shown(tool));
      return tool;
    };
    const shown = (tool) => ({ __proto__: null, value: tool, enumerable: true, writable: false, configurable: true });
    const refuse = () => false;
    return new Proxy({ __proto__: null }, {
      __proto__: null,
      get: member,
      has: (made, name) => member(made, name) !== undefined,
      ownKeys: () => parse(host.names(index)),
      getOwnPropertyDescriptor: (made, name) => {
        const tool = member(made, name);
        return tool === undefined ? undefined : shown(tool);
      },
      set: refuse,
      defineProperty: refuse,
      deleteProperty: refuse,
      preventExtensions: refuse,
      setPrototypeOf: (_, prototype) => prototype === null,
    });
  }

  // -- time

  // As for durations in words.
  const LONGEST_SLEEP = 3_650 * 86_400_000;
  const milliseconds = (duration) => {
    const ms = typeof duration === 'string' ? host.duration(toWellFormed(duration)) : duration;
    if (typeof ms !== 'number' || !isFiniteNumber(ms) || ms < 0) {
      throw new NativeTypeError('sleep takes milliseconds or a text such as "30s" or "10d"');
    }
    if (ms > LONGEST_SLEEP) throw new NativeRangeError('sleep takes at most 3650 days');
    return ms;
  };
  const sleep = (duration) => {
    let ms;
    try {
      ms = milliseconds(duration);
    } catch (error) {
      return new NativePromise((_, reject) => reject(error));
    }
    const seq = host.sleep(ms);
    return new NativePromise((resolve) => pending.set(seq, { __proto__: null, resolve }));
  };

  const setTimeout = (callback, delay, ...args) => {
    if (typeof callback !== 'function') throw new NativeTypeError('setTimeout takes a function');
    const ms = +delay;
    const seq = host.sleep(!(ms > 0 && isFiniteNumber(ms)) ? 0 : ms < LONGEST_SLEEP ? ms : LONGEST_SLEEP);
    pending.set(seq, { __proto__: null, callback, args });
    return seq;
  };
  const clearTimeout = (id) => {
    const record = typeof id === 'number' ? pending.get(id) : undefined;
    if (record !== undefined && record.callback !== undefined) record.callback = () => {};
  };
  const guarded = (callback, args) => {
    try {
      apply(callback, undefined, args);
    } catch (error) {
      thrown(error);
    }
  };

  // -- globals

  const console = {};
  for (const level of ['debug', 'log', 'info', 'warn', 'error']) {
    console[level] = { [level](...args) {
      let text = '';
      for (let i = 0; i < args.length && text.length <= LINE; i++) text += (i === 0 ? '' : ' ') + inspect(args[i]);
      host.log(level, toWellFormed(text));
    } }[level];
  }

  const crypto = {
    randomUUID() {
      return host.uuid();
    },
    getRandomValues(array) {
      const bytes = web().bytesOf(array);
      if (bytes === undefined) throw new NativeTypeError('getRandomValues takes an array of integers');
      const random = host.randomBytes(bytes.length);
      for (let i = 0; i < bytes.length; i++) bytes[i] = random[i];
      return array;
    },
  };

  define(Math, 'random', { random: () => host.random() }.random);
  define(globalThis, 'Date', makeDate(host));
  define(globalThis, 'console', console);
  define(globalThis, 'crypto', crypto);
  define(globalThis, 'setTimeout', setTimeout);
  define(globalThis, 'clearTimeout', clearTimeout);
  define(globalThis, 'queueMicrotask', { queueMicrotask(callback) {
    if (typeof callback !== 'function') throw new NativeTypeError('queueMicrotask takes a function');
    nativeQueueMicrotask(() => guarded(callback, []));
  } }.queueMicrotask);
  delete globalThis.Atomics;
  delete globalThis.SharedArrayBuffer;
  // What scripts are type-checked against is ECMAScript 2023: what is newer is not there by accident.
  for (const name of ['AsyncDisposableStack', 'DisposableStack', 'Float16Array', 'InternalError', 'Iterator', 'SuppressedError']) {
    delete globalThis[name];
  }
  // It would show a script the frames of this file.
  delete Error.prepareStackTrace;
  const web = lazily(host);

  // -- how Rust enters

  function deliver(seq, kind, ...value) {
    const record = pending.get(seq);
    if (record === undefined) return false;
    pending.delete(seq);
    if (kind === 'slept' && record.callback !== undefined) guarded(record.callback, record.args);
    else if (kind === 'failure' && record.reject !== undefined) {
      record.reject(toolError(value[0], record.tool, value[1], value[2], value[3], host.key(seq)));
    } else if (kind === 'value' && record.tool !== undefined) record.resolve(value[0]);
    else if (kind === 'slept' && record.tool === undefined) record.resolve(undefined);
    else return false;
    return true;
  }

  async function start(evaluated, namespace, input) {
    let value;
    try {
      await evaluated;
      const main = namespace.default;
      if (typeof main !== 'function') {
        throw new NativeTypeError('the script has no main: it must export default async function main(input) { … }');
      }
      value = await main(input);
    } catch (error) {
      thrown(error);
      return;
    }
    finish(value);
  }

  function finish(value) {
    let json;
    try {
      json = value === undefined ? 'null' : toJson(value);
    } catch (error) {
      host.badResult(toWellFormed('the result cannot be written as JSON: ' + summary(error)));
      return;
    }
    if (json === undefined) host.badResult('the result is a ' + typeof value + ', which JSON cannot say');
    else host.returned(json);
  }

  /** Strings that begin with `mark` stand for integers that a double cannot hold. */
  function revive(value, mark) {
    if (typeof value === 'string') return startsWith(value, mark) ? NativeBigInt(sliceText(value, mark.length)) : value;
    if (typeof value !== 'object' || value === null) return value;
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (key === 'length' && isArray(value)) continue;
      const member = value[key];
      const revived = revive(member, mark);
      if (revived !== member) defineProperty(value, key, data(revived, true));
    }
    return value;
  }

  const exports = { __proto__: null, sleep: freeze(sleep), ToolError };
  for (let i = 0; i < exportNames.length; i++) exports[exportNames[i]] = makeExport(i);
  const unhandled = (reason) => host.log('error', toWellFormed('unhandled rejection: ' + inspect(reason)));
  return { __proto__: null, exports, deliver, start, revive, unhandled };
}

/** What `web.js` would otherwise take from built-in objects, which the script may have changed by then. */
const forWeb = freeze({
  __proto__: null,
  apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys, setPrototypeOf,
  freeze, hasOwn, parse, stringify, isArray, isError, uncurry, list, data, define, summary, inspect, safeMap,
  toWellFormed, startsWith, sliceText, dateValue, regexpSource,
  mapForEach, setForEach, mapSize, setSize, typedArrayTag, typedArrayLength, bufferLength,
  regexpFlags: getter(RegExp.prototype, 'flags'),
  typedArrayBuffer: getter(getPrototypeOf(Uint8Array.prototype), 'buffer'),
  typedArrayOffset: getter(getPrototypeOf(Uint8Array.prototype), 'byteOffset'),
  typedArrayBytes: getter(getPrototypeOf(Uint8Array.prototype), 'byteLength'),
  viewBuffer: getter(DataView.prototype, 'buffer'),
  viewOffset: getter(DataView.prototype, 'byteOffset'),
  viewBytes: getter(DataView.prototype, 'byteLength'),
  bufferSlice: uncurry(ArrayBuffer.prototype.slice),
  setBytes: uncurry(getPrototypeOf(Uint8Array.prototype).set),
  booleanValue: uncurry(Boolean.prototype.valueOf),
  numberValue: uncurry(Number.prototype.valueOf),
  stringValue: uncurry(String.prototype.valueOf),
  mapSet: uncurry(Map.prototype.set),
  setAdd: uncurry(Set.prototype.add),
  iteratorSymbol: Symbol.iterator,
  tagSymbol: Symbol.toStringTag,
  iterate: uncurry(Array.prototype[Symbol.iterator]),
  IteratorPrototype: getPrototypeOf(getPrototypeOf([][Symbol.iterator]())),
  Boolean, Date, Error, Map, NativeObject: Object, Number, RegExp, Set, String, TypeError, Uint8Array,
  errors: freeze({ __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }),
  typedArrays: freeze({
    __proto__: null,
    Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array,
    Float16Array: globalThis.Float16Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array,
  }),
});

/** Globals that few scripts use: accessors that load the rest of the world when first touched. */
function lazily(host) {
  let made;
  const web = () => {
    made ??= host.web()(host, forWeb);
    return made;
  };
  for (const name of ['URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'structuredClone', 'atob', 'btoa']) {
    defineProperty(globalThis, name, {
      __proto__: null,
      configurable: true,
      enumerable: false,
      get() {
        const value = web()[name];
        define(globalThis, name, value);
        return value;
      },
      set(value) {
        define(globalThis, name, value);
      },
    });
  }
  return web;
}

export default install;
