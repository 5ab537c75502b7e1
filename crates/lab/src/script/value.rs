use mlua::{Lua, Value};

/// Tables nested deeper than this are taken for endless.
const DEPTH_MAX: usize = 64;

/// A value on its way from one state to another: what wrk can transfer too.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Transfer {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(Vec<u8>),
    Table(Vec<(Self, Self)>),
}

impl Transfer {
    pub(super) fn of(value: &Value) -> mlua::Result<Self> {
        Self::of_nested(value, 0)
    }

    fn of_nested(value: &Value, depth: usize) -> mlua::Result<Self> {
        Ok(match value {
            Value::Nil => Self::Nil,
            Value::Boolean(boolean) => Self::Boolean(*boolean),
            Value::Integer(integer) => Self::Number(*integer as f64),
            Value::Number(number) => Self::Number(*number),
            Value::String(text) => Self::Text(text.as_bytes().to_vec()),
            Value::Table(_) if depth == DEPTH_MAX => {
                return Err(mlua::Error::runtime("cannot transfer a table that contains itself to thread"));
            }
            Value::Table(table) => {
                let mut pairs = Vec::new();
                for pair in table.pairs::<Value, Value>() {
                    let (key, value) = pair?;
                    pairs.push((Self::of_nested(&key, depth + 1)?, Self::of_nested(&value, depth + 1)?));
                }
                Self::Table(pairs)
            }
            other => {
                let reason = format!("cannot transfer '{}' to thread", other.type_name());
                return Err(mlua::Error::runtime(reason));
            }
        })
    }

    pub(super) fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        Ok(match self {
            Self::Nil => Value::Nil,
            Self::Boolean(boolean) => Value::Boolean(boolean),
            Self::Number(number) => Value::Number(number),
            Self::Text(text) => Value::String(lua.create_string(text)?),
            Self::Table(pairs) => {
                let table = lua.create_table()?;
                for (key, value) in pairs {
                    table.raw_set(key.into_lua(lua)?, value.into_lua(lua)?)?;
                }
                Value::Table(table)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_journey() {
        let (from, to) = (Lua::new(), Lua::new());
        let value = from.load("return { 1, 2.5, 'x', true, { a = { b = 'c' } } }").eval::<Value>().unwrap();
        let arrived = Transfer::of(&value).unwrap().into_lua(&to).unwrap();
        to.globals().set("t", arrived).unwrap();
        let fits = to.load("return t[1] == 1 and t[2] == 2.5 and t[3] == 'x' and t[4] and t[5].a.b == 'c'");
        assert!(fits.eval::<bool>().unwrap());
    }

    #[test]
    fn what_cannot_travel_is_refused() {
        let lua = Lua::new();
        for code in ["return print", "local t = {} t.t = t return t"] {
            let value = lua.load(code).eval::<Value>().unwrap();
            assert!(Transfer::of(&value).unwrap_err().to_string().contains("cannot transfer"));
        }
    }
}
