package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/prune/janitor"
)

// Defaults of what neither flag, environment nor file sets.
const (
	defaultBucket    = "./indexd-data"
	defaultListen    = "127.0.0.1:8080"
	defaultNamespace = "default"
)

// fileSettings are what the configuration file may hold; any other key in it is an error.
//
//	bucket: file:///var/lib/indexd
//	listen: 127.0.0.1:8080
//	cards: 8          # cards in a view, 1 to 200
//	resolves: 64      # requests for resolving a view
//	prune_every: 5m   # how often serve prunes each index; 0s for never
//	indexes: [ … ]    # see indexSettings; default: one index, running
//	snapshots: [ … ]  # see snapshotSettings; what serve publishes
//	auth: { … }       # see authSettings; who may do what over HTTP
//	public_url: https://indexd.example         # under which people reach serve through a proxy
//	cors_origins: [https://portal.example]     # whose pages may use the API
//
// Which index and namespace a command works on is no matter of the file: a namespace in a file that many share would
// silently narrow what prune works on.
type fileSettings struct {
	Bucket     string          `koanf:"bucket" give:"a text such as file:///var/lib/indexd"`
	Listen     string          `koanf:"listen" give:"a text such as 127.0.0.1:8080"`
	Cards      int             `koanf:"cards" give:"a whole number from 1 to 200"`
	Resolves   int             `koanf:"resolves" give:"a whole number from 1 to 100000"`
	PruneEvery string          `koanf:"prune_every" give:"a duration with its unit, such as 5m, or 0s for never"`
	Indexes    []indexSettings `koanf:"indexes" give:"a list of indexes" each:"a mapping such as {name: running, ttl: 2h}"`
	// Published by serve alone.
	Snapshots []snapshotSettings `koanf:"snapshots" give:"a list of snapshots" each:"a mapping such as {namespace: team, name: files, dir: /srv/files}"`
	// Of serve alone.
	Auth      *authSettings `koanf:"auth" give:"a mapping with tokens or oidc"`
	PublicURL string        `koanf:"public_url" give:"a text such as https://indexd.example"`
	Origins   []string      `koanf:"cors_origins" give:"a list of origins" each:"a text such as https://portal.example"`
}

// settings are what a command works with: each from its flag, else the environment, else the file, else its default.
type settings struct {
	fileSettings `koanf:",squash"`
	Index        string `koanf:"index"`     // empty: nobody named one
	Namespace    string `koanf:"namespace"` // empty: nobody named one

	pruneEvery time.Duration // 0: never

	// sources say who set a setting: a flag, a variable or a line of the file. What nobody set is not in it.
	sources map[string]string
}

// blame names who set the setting that an error refuses.
func (s *settings) blame(name string, err error) error {
	if source := s.sources[name]; err != nil && source != "" {
		return fmt.Errorf("%s: %w", source, err)
	}
	return err
}

// settingNames are the settings that environment variables (INDEXD_ and the name in capitals) and, where a command has
// them, flags of that name may set. A variable INDEXD_* of another name is nobody's error: container platforms inject
// such for a service that is called indexd.
var settingNames = []string{"bucket", "index", "namespace", "listen", "cards", "resolves", "prune_every"}

// flagName is the flag that sets a setting.
func flagName(setting string) string { return strings.ReplaceAll(setting, "_", "-") }

const envPrefix = "INDEXD_"

// maxResolves bounds the requests for resolving one view. Nobody needs as many; more is a slip.
const maxResolves = 100_000

// settings reads the settings for cmd. Every error is a usage error.
func (a *app) settings(cmd *cobra.Command) (*settings, error) {
	k := koanf.New(".")
	sources := make(map[string]string)
	for _, load := range []loader{a.loadFile, a.loadEnv, a.loadFlags} {
		if err := load(k, cmd, sources); err != nil {
			return nil, &statusError{exitUsage, err}
		}
	}
	s := &settings{
		sources: sources,
		fileSettings: fileSettings{
			Bucket: defaultBucket, Listen: defaultListen,
			Cards: blobindex.DefaultCards, Resolves: blobindex.DefaultBudget, PruneEvery: exact(janitor.DefaultEvery),
		},
	}
	var err error
	if _, err = decode(k, s); err != nil {
		return nil, &statusError{exitUsage, err}
	}
	if s.Cards < 1 || s.Cards > blobindex.MaxCards {
		return nil, usagef("%s is %d; give 1 to %d", sources["cards"], s.Cards, blobindex.MaxCards)
	}
	if s.Resolves < 1 || s.Resolves > maxResolves {
		return nil, usagef("%s is %d; give 1 to %d", sources["resolves"], s.Resolves, maxResolves)
	}
	if s.pruneEvery, err = parseEvery(s.PruneEvery); err != nil {
		return nil, &statusError{exitUsage, s.blame("prune_every", err)}
	}
	return s, nil
}

// minEvery is the shortest interval between passes: each takes a listing of the whole index.
const minEvery = time.Second

// parseEvery reads an interval between passes; 0 means that there are none.
func parseEvery(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < minEvery && d != 0 {
		return 0, fmt.Errorf("%.40q is no interval; give a duration of %s or more with its unit, such as 5m, or 0 for never", text,
			exact(minEvery))
	}
	return d, nil
}

// A loader puts what it finds into k, and into sources where it found it.
type loader func(k *koanf.Koanf, cmd *cobra.Command, sources map[string]string) error

// loadFile reads the file that --config or INDEXD_CONFIG names, if any.
func (a *app) loadFile(k *koanf.Koanf, cmd *cobra.Command, sources map[string]string) error {
	path, named, err := a.configPath(cmd)
	if err != nil || !named {
		return err
	}
	own := koanf.New(".")
	if err := own.Load(file.Provider(path), yaml.Parser()); err != nil {
		return fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	if err := checkShape("", own.Raw(), reflect.TypeFor[fileSettings](), ""); err != nil {
		return fmt.Errorf("in the configuration %s %w", path, err)
	}
	var known fileSettings
	unused, err := decode(own, &known)
	if err != nil {
		return fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	if len(unused) > 0 {
		return fmt.Errorf("the configuration %s has keys that nothing reads: %s; correct or remove them", path,
			strings.Join(unused, ", "))
	}
	for _, name := range []string{"bucket", "listen", "prune_every", "public_url"} {
		if own.Exists(name) && strings.TrimSpace(own.String(name)) == "" {
			return fmt.Errorf("the configuration %s sets %s to nothing; give a value, or remove it", path, name)
		}
	}
	if own.Exists("indexes") && len(known.Indexes) == 0 {
		return fmt.Errorf("the configuration %s lists no index; name one, or remove \"indexes\"", path)
	}
	for _, name := range settingNames {
		if own.Exists(name) {
			sources[name] = fmt.Sprintf("%s in %s", name, path)
		}
	}
	return k.Merge(own)
}

func (a *app) configPath(cmd *cobra.Command) (path string, named bool, err error) {
	if f := cmd.Flags().Lookup("config"); f != nil && f.Changed {
		path, named = f.Value.String(), true
		if path == "" {
			err = errors.New("--config is set to nothing; give a file, or leave it out")
		}
		return path, named, err
	}
	for _, v := range a.env {
		if p, ok := strings.CutPrefix(v, envPrefix+"CONFIG="); ok {
			path, named = p, true
		}
	}
	if named && path == "" {
		err = fmt.Errorf("%sCONFIG is set to nothing; give a file, or unset it", envPrefix)
	}
	return path, named, err
}

func (a *app) loadEnv(k *koanf.Koanf, _ *cobra.Command, sources map[string]string) error {
	var errs []error
	opt := env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return a.env },
		TransformFunc: func(variable, value string) (string, any) {
			name := strings.ToLower(strings.TrimPrefix(variable, envPrefix))
			if !slices.Contains(settingNames, name) || variable != envPrefix+strings.ToUpper(name) {
				return "", nil
			}
			if strings.TrimSpace(value) == "" {
				errs = append(errs, fmt.Errorf("%s is set to nothing; give a value, or unset it", variable))
				return "", nil
			}
			typed, err := typedSetting(name, value)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", variable, err))
			}
			sources[name] = variable
			return name, typed
		},
	}
	if err := k.Load(env.Provider(".", opt), nil); err != nil {
		return fmt.Errorf("reading the environment: %w", err)
	}
	return errors.Join(errs...)
}

func (a *app) loadFlags(k *koanf.Koanf, cmd *cobra.Command, sources map[string]string) error {
	for _, name := range settingNames {
		f := cmd.Flags().Lookup(flagName(name))
		if f == nil || !f.Changed {
			continue
		}
		value := f.Value.String()
		if strings.TrimSpace(value) == "" {
			return fmt.Errorf("--%s is set to nothing; give a value, or leave it out", f.Name)
		}
		if err := k.Set(name, value); err != nil {
			return fmt.Errorf("reading --%s: %w", f.Name, err)
		}
		sources[name] = "--" + f.Name
	}
	return nil
}

func typedSetting(name, value string) (any, error) {
	if name != "cards" && name != "resolves" {
		return value, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return nil, fmt.Errorf("%.40q is no whole number that can be used", value)
	}
	return n, nil
}

// decode fills into from k, without guessing at types, and returns the keys that into has no field for, sorted.
func decode(k *koanf.Koanf, into any) (unused []string, err error) {
	var meta mapstructure.Metadata
	err = k.UnmarshalWithConf("", into, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		TagName:   "koanf",
		Metadata:  &meta,
		MatchName: func(key, field string) bool { return key == field },
		Result:    into,
	}})
	slices.Sort(meta.Unused)
	return meta.Unused, err
}
