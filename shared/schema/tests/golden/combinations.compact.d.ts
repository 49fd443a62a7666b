// Tool<A> takes A, further members allowed; ClosedTool<A> exactly A; no argument where all of A is optional. R absent: the result's shape is unknown.
declare module "rewind:tools" {
type Args<A>={} extends A?[args?:A]:[args:A]
interface ClosedTool<A,R=any>{(...a:Args<A>):Promise<R>;raw(...a:Args<A>):Promise<McpResult>} // raw: the whole MCP result
type Tool<A,R=any>=ClosedTool<A|A&{[k:string]:unknown},R>
interface McpResult{content:{type:string;text?:string;[k:string]:unknown}[];structuredContent?:any;isError?:boolean;_meta?:any}
export class ToolError extends Error{private constructor();code:"invalid_arguments"|"tool_failed"|"invalid_result"|"timeout"|"unavailable"|"outcome_unknown"|"rejected"|"credentials"|"refused"|"too_large"|"cancelled"|"not_recorded";tool:string;retryable:boolean;details?:any;key:string}
export function sleep(duration:number|string):Promise<void> // ms, or "90s", "12h", "10d"
export const server:{
all_of:Tool<{a:string,b?:number}>
any_of:Tool<{id?:string|number,maybe?:string|null}>
booleans:Tool<{anything?:unknown,not_anything?:never,nothing?:never}>
either_required:Tool<{name:string,id?:number}|{id:number,name?:string}>
one_of:Tool<{kind:"circle",r:number}|{kind:"square",side:number}>
};
export const host:{};
}
