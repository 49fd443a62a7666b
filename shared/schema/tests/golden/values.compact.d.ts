// Tool<A> takes A, further members allowed; ClosedTool<A> exactly A; no argument where all of A is optional. R absent: the result's shape is unknown.
declare module "rewind:tools" {
type Args<A>={} extends A?[args?:A]:[args:A]
interface ClosedTool<A,R=any>{(...a:Args<A>):Promise<R>;raw(...a:Args<A>):Promise<McpResult>} // raw: the whole MCP result
type Tool<A,R=any>=ClosedTool<A|A&{[k:string]:unknown},R>
interface McpResult{content:{type:string;text?:string;[k:string]:unknown}[];structuredContent?:any;isError?:boolean;_meta?:any}
export class ToolError extends Error{private constructor();code:"invalid_arguments"|"tool_failed"|"invalid_result"|"timeout"|"unavailable"|"outcome_unknown"|"rejected"|"credentials"|"refused"|"too_large"|"cancelled"|"not_recorded";tool:string;retryable:boolean;details?:any;key:string}
export function sleep(duration:number|string):Promise<void> // ms, or "90s", "12h", "10d"
export const server:{
enums:Tool<{big?:number,both?:boolean,const?:"only",e?:number,mixed?:"a"|1|1.5|-2|true|null|["x"]|{k:"v"},none?:never,typed?:"a"}>
inferred:Tool<{array?:{[k:string]:unknown}|string[]|string|number|boolean|null,number?:unknown,object?:{x?:unknown,[k:string]:unknown}|unknown[]|string|number|boolean|null,string?:unknown}>
types:Tool<{list?:string|null,nullable?:string|null,object_or_null?:{x?:number,[k:string]:unknown}|null,unknown_type?:unknown}>
};
export const host:{};
}
