package main

import (
	"fmt"
	"reflect"
)

// checkShape holds a value of the configuration file to the type that it is read into, and names the first one that is
// another: where it is, what it is, and what to give instead, which is what the tag of its field says under "give", and
// for the elements of a list under "each". Keys that the type has no field for are left to others.
func checkShape(path string, v any, t reflect.Type, tag reflect.StructTag) error {
	give := tag.Get("give")
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if v == nil {
		return fmt.Errorf("%s is set to nothing; give %s, or remove it", path, give)
	}
	switch t.Kind() {
	case reflect.Struct:
		if m, ok := v.(map[string]any); ok {
			return checkFields(path, m, t)
		}
	case reflect.Slice:
		if list, ok := v.([]any); ok {
			for i, element := range list {
				each := reflect.StructTag(fmt.Sprintf("give:%q", tag.Get("each")))
				if err := checkShape(fmt.Sprintf("%s[%d]", path, i), element, t.Elem(), each); err != nil {
					return err
				}
			}
			return nil
		}
	default:
		if reflect.TypeOf(v) == t {
			return nil
		}
	}
	return fmt.Errorf("%s is %s; give %s", path, describe(v), give)
}

func checkFields(path string, m map[string]any, t reflect.Type) error {
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("koanf")
		v, ok := m[key]
		if !ok {
			continue
		}
		at := key
		if path != "" {
			at = path + "." + key
		}
		if err := checkShape(at, v, f.Type, f.Tag); err != nil {
			return err
		}
	}
	return nil
}

// describe says what a value of the configuration file is.
func describe(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%.40q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return fmt.Sprintf("%.40s", fmt.Sprint(v))
}
