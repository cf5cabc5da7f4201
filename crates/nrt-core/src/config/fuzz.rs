//! Doors for the fuzz targets: the parsers on texts that are in no environment. Not an interface.

use super::{
    Report, Shape,
    draft::Draft,
    env::Env,
    report,
    table::{Knob, TABLE},
};

/// An environment made up for one parse.
pub struct Variables<'a>(pub &'a [(&'a str, &'a [u8])]);

impl Env for Variables<'_> {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_vec())
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
}

/// One variable of the table under one of its full names.
pub struct Variable {
    knob: &'static Knob,
    /// The name.
    pub name: String,
}

/// All variables, one by one where the table has a prefix.
pub fn variables() -> Vec<Variable> {
    let names =
        |knob: &'static Knob| knob.rule.full_names(knob.name).into_iter().map(move |name| Variable { knob, name });
    TABLE.iter().flat_map(names).collect()
}

impl Variable {
    /// The value, as shown to a person, and the sentences about a text that is refused.
    pub fn parse(&self, text: Option<&[u8]>, shape: &Shape) -> (String, Vec<String>) {
        let given: Vec<_> = text.map(|text| (self.name.as_str(), text)).into_iter().collect();
        let mut draft = Draft::new();
        let outcome = self.knob.rule.apply(self.knob.name, &Variables(&given), shape, &mut draft);
        (self.knob.rule.show(&draft), outcome.faults.iter().map(ToString::to_string).collect())
    }
}

/// The whole parse with all its rules, as reported to a person.
pub fn report_of(variables: &Variables<'_>, shape: Option<Shape>, trusted: bool) -> Report {
    report::make(variables, || shape, trusted)
}
