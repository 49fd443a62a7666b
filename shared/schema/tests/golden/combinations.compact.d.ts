// Without a second type argument the result is any: no output schema, none observed.
declare module "rewind:tools" {
  interface Tool<Args, Result = any> { (args: Args): Promise<Result>; raw(args: Args): Promise<McpResult> } // raw: the whole MCP result
  interface OptionalTool<Args, Result = any> { (args?: Args): Promise<Result>; raw(args?: Args): Promise<McpResult> }
  interface McpResult { content: { type: string; text?: string; [key: string]: unknown }[]; structuredContent?: any; isError?: boolean; _meta?: { [key: string]: unknown } }
  export class ToolError extends Error { private constructor(); code: "invalid_arguments" | "tool_failed" | "invalid_result" | "timeout" | "unavailable" | "outcome_unknown" | "rejected" | "credentials" | "refused" | "too_large" | "cancelled" | "not_recorded"; tool: string; retryable: boolean; details?: any; key: string }
  export function sleep(duration: number | string): Promise<void>; // ms, or "90s", "12h", "10d"
  export const server: {
    all_of: Tool<{ a: string; b?: number; [key: string]: unknown }>;
    any_of: OptionalTool<{ id?: string | number; maybe?: string | null; [key: string]: unknown }>;
    booleans: OptionalTool<{ anything?: unknown; not_anything?: never; nothing?: never; [key: string]: unknown }>;
    either_required: Tool<{ name: string; id?: number; [key: string]: unknown } | { id: number; name?: string; [key: string]: unknown }>;
    one_of: Tool<{ kind: "circle"; r: number; [key: string]: unknown } | { kind: "square"; side: number; [key: string]: unknown }>;
  };
  export const host: {};
}
