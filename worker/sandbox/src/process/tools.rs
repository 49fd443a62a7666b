//! The module `rewind:tools`, the only one that a script can import.

use rquickjs::{
    Ctx, Error, JsLifetime, Module, Object, Result,
    loader::{ImportAttributes, Loader, Resolver},
    module::{Declarations, Declared, Exports, ModuleDef},
};

pub(crate) const NAME: &str = "rewind:tools";

/// What the module exports: an object whose own members are the exports.
pub(crate) struct ToolsExports<'js>(pub(crate) Object<'js>);

// SAFETY: the only 'js in it is that of the object.
unsafe impl<'js> JsLifetime<'js> for ToolsExports<'js> {
    type Changed<'to> = ToolsExports<'to>;
}

#[derive(Debug)]
pub(crate) struct OnlyTools;

impl Resolver for OnlyTools {
    fn resolve<'js>(
        &mut self,
        _: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        if name == NAME {
            return Ok(NAME.into());
        }
        Err(Error::new_resolving_message(base, name, "a script can import nothing but \"rewind:tools\""))
    }
}

impl Loader for OnlyTools {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        Module::declare_def::<Tools, _>(ctx.clone(), name)
    }
}

struct Tools;

impl ModuleDef for Tools {
    fn declare(declarations: &Declarations<'_>) -> Result<()> {
        let ctx = declarations.module().ctx();
        let exports = ctx.userdata::<ToolsExports<'_>>().ok_or(Error::Unknown)?;
        for name in exports.0.keys::<String>() {
            declarations.declare(name?)?;
        }
        Ok(())
    }

    fn evaluate<'js>(ctx: &Ctx<'js>, module: &Exports<'js>) -> Result<()> {
        let exports = ctx.userdata::<ToolsExports<'js>>().ok_or(Error::Unknown)?;
        for member in exports.0.props::<String, rquickjs::Value<'js>>() {
            let (name, value) = member?;
            module.export(name, value)?;
        }
        Ok(())
    }
}
